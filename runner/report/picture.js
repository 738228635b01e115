// The picture of lives: it draws what stacking.py laid out, and says what lies under the pointer.
//
// Each column of pixels shows one moment: the highest of those that fall into it. Into a field of
// pixels goes which band lies there, so pointing is a look-up; colours are laid on after that.
{
const ROWS = 40;
const COLOURS = 8;
const LEFT = 60, RIGHT = 10, TOP = 22, BOTTOM = 24;
const LABEL_HEIGHT = 13;
const LEAST_DRAG = 5, TALL_DRAG = 28;
const BY = ["line", "layer", "op", "kind"];

// As runner/metrics.py writes them.
const digits = (value) => value.toLocaleString("en-US", {
  minimumFractionDigits: value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2,
  maximumFractionDigits: value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2,
});
const BYTES = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
const NANOSECONDS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
const inUnits = (value, units) => {
  const [scale, unit] = units.find(([size]) => value >= size * 0.9995) || units.at(-1);
  return `${scale === 1 && units === BYTES ? value : digits(value / scale)} ${unit}`;
};
const readableBytes = (value) => inUnits(value, BYTES);
const readableTime = (value) => inUnits(value, NANOSECONDS);
const exactly = (value) => `${value.toLocaleString("en-US")} bytes`;

// Round values between two ends, with as many digits as tell one from the next.
function ticks(low, high, most, units) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].find((each) => each * power >= rough * 0.999) * power);
  const [scale, unit] = units.find(([size]) => high >= size) || units.at(-1);
  const decimals = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) {
    found.push([at, at === 0 ? "0" : `${(at / scale).toFixed(Math.min(decimals, 12))} ${unit}`]);
  }
  return found;
}

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

async function unpack(text) {
  const deflated = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

// One step: its events, its bands from the lowest to the highest, the bytes live at each event.
class Lives {
  constructor(data, depth) {
    Object.assign(this, data);
    this.count = data.bytes.length;
    let now = 0;
    this.times = Float64Array.from(data.steps, (step) => (now += step));
    this.end = Math.max(data.end, now + 1);
    const events = this.times.length;
    this.born = Int32Array.from(data.born);
    this.died = Int32Array.from(data.died);
    this.sizes = Float64Array.from(data.bytes);
    this.levels = new Float64Array(events + 1);
    this.alive = new Float64Array(events + 1);
    this.latest = new Int32Array(events).fill(-1);
    for (let band = 0; band < this.count; band++) {
      this.levels[this.born[band]] += this.sizes[band];
      this.levels[this.died[band]] -= this.sizes[band];
      this.alive[this.born[band]] += data.tensors[band];
      this.alive[this.died[band]] -= data.tensors[band];
      if (this.born[band]) this.latest[this.born[band]] = band;
    }
    for (let event = 1; event < events; event++) {
      this.levels[event] += this.levels[event - 1];
      this.alive[event] += this.alive[event - 1];
      if (this.latest[event] < 0) this.latest[event] = this.latest[event - 1];
    }
    data.rest.forEach((size, event) => { this.levels[event] += size; });
    this.highest = this.levels.subarray(0, events).reduce((a, b) => Math.max(a, b), 1);
    this.bySize = Uint32Array.from(data.bytes.keys()).sort((a, b) => this.sizes[b] - this.sizes[a]);
    this.groups = data.kinds.map((kind) => ({
      line: this.place(kind),
      layer: kind.scope.slice(0, depth).join("/") || "in no layer",
      op: kind.op,
    }));
  }

  // The last event at or before a time.
  eventAt(time) {
    let low = 0, high = this.times.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.times[middle] <= time) low = middle; else high = middle;
    }
    return low;
  }

  frame(kind) { return kind.stack.length ? this.frames[kind.stack.at(-1)] : null; }

  place(kind) {
    const frame = this.frame(kind);
    return frame ? `${frame[0]}:${frame[1]}` : "no line";
  }

  // The same without folders, where there is little room.
  shortPlace(kind) { return this.place(kind).split("/").at(-1); }

  group(band, by) {
    return by === "kind" ? this.parts[this.part[band]][0] : this.groups[this.kind[band]][by];
  }

  tensor(band) {
    const tensors = this.tensors[band], { tensor } = this.kinds[this.kind[band]];
    return tensors > 1 ? `${tensors.toLocaleString("en-US")} × ${tensor}` : tensor;
  }

  isAlive(band, event) { return this.born[band] <= event && event < this.died[band]; }

  // Bytes of each group at the peak.
  atPeak(by) {
    const found = new Map();
    for (let band = 0; band < this.count; band++) {
      if (!this.isAlive(band, this.peak)) continue;
      const group = this.group(band, by);
      found.set(group, (found.get(group) || 0) + this.sizes[band]);
    }
    return found;
  }

  code(group) {
    const kind = this.kinds.find((each, number) => this.groups[number].line === group);
    return (kind && this.frame(kind)?.[3]) || "";
  }
}

// Colours, from the page's own names for them.
function scheme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => {
    const hex = style.getPropertyValue(`--${name}`).trim();
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  };
  return { colour, css: (name) => style.getPropertyValue(`--${name}`).trim() };
}
const mix = (one, other, share) => one.map((part, at) => part + (other[at] - part) * share);
const pixel = ([red, green, blue]) => (255 << 24 | blue << 16 | green << 8 | red) >>> 0;

// One picture with its table: a canvas for the bands and one over it for what follows the pointer.
class Figure {
  constructor(whole, root) {
    this.whole = whole;
    this.root = root;
    this.plot = root.querySelector(".lives-plot");
    [this.canvas, this.over] = this.plot.querySelectorAll("canvas");
    this.card = root.querySelector(".lives-tensor");
    this.table = root.querySelector("table");
    this.select = root.querySelector("select");
    this.select?.addEventListener("change", () => whole.choose(this, Number(this.select.value)));
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  show(lives) {
    this.lives = lives;
    this.kept = this.pointed = -1;
    this.event = lives.peak;
    this.view = [0, lives.end];
  }

  // Drawing.

  get ratio() { return Math.min(devicePixelRatio || 1, 2); }

  draw() {
    if (!this.lives || !this.plot.clientWidth) return;
    const ratio = this.ratio, wide = this.plot.clientWidth, high = this.plot.clientHeight;
    for (const canvas of [this.canvas, this.over]) {
      canvas.width = Math.round(wide * ratio);
      canvas.height = Math.round(high * ratio);
    }
    this.width = Math.max(1, Math.round((wide - LEFT - RIGHT) * ratio));
    this.height = Math.max(1, Math.round((high - TOP - BOTTOM) * ratio));
    this.place();
    this.stack();
    this.colour();
    this.follow();
  }

  // Which event each column shows, and with which column each event begins.
  place() {
    const { lives, width } = this, [begin, end] = this.view;
    const { times, levels } = lives;
    this.moments = new Int32Array(width);
    this.columns = new Int32Array(times.length + 1).fill(width);
    let event = lives.eventAt(begin), before = -1;
    for (let column = 0; column < width; column++) {
      const until = begin + (end - begin) * (column + 1) / width;
      let highest = event;
      while (event + 1 < times.length && times[event + 1] < until) {
        if (levels[++event] > levels[highest]) highest = event;
      }
      this.moments[column] = highest;
      while (before < highest) this.columns[++before] = column;
    }
  }

  stack() {
    const { lives, width, height, columns, moments } = this;
    const [low, high] = this.whole.bytes, scale = height / (high - low);
    const { born, died, sizes, count } = lives;
    const field = this.field = new Int32Array(width * height);  // a band's number and 1; 0: none
    const tops = new Float64Array(width), rows = new Int32Array(width);
    const next = new Float64Array(width).fill(low + 0.5 / scale);  // from where a row is its own
    const least = LABEL_HEIGHT * this.ratio;
    this.labels = [];
    const lay = (band, first, last, size) => {
      const mark = band + 1, tall = size * scale >= least;
      let run = 0, longest = 0, at = 0, bottom = -1;
      for (let column = first; column < last; column++) {
        const top = tops[column] += size;
        if (top < next[column]) continue;
        const from = rows[column], to = Math.min(height, Math.round((top - low) * scale));
        rows[column] = to;
        next[column] = to < height ? low + (to + 0.5) / scale : Infinity;
        for (let place = (height - 1 - from) * width + column, row = from; row < to; row++) {
          field[place] = mark;
          place -= width;
        }
        if (tall && to - from >= least) {
          run = from === bottom ? run + 1 : 1;
          bottom = from;
          if (run > longest) { longest = run; at = column; }
        } else bottom = -1;
      }
      if (longest) {
        const top = rows[at];
        this.labels.push([band, at - longest + 1, longest, top]);
      }
    };
    for (let band = 0; band < count; band++) {
      const first = columns[born[band]], last = columns[died[band]];
      if (first < last) lay(band, first, last, sizes[band]);
    }
    if (lives.rest.length) {
      for (let column = 0; column < width; column++) {
        lay(count, column, column + 1, lives.rest[moments[column]]);
      }
    }
  }

  // Lay on colours, and a fine line between bands that have the room for one.
  colour() {
    const { field, width, height, lives } = this, { scheme, by } = this.whole;
    const ground = scheme.colour("ground"), text = scheme.colour("text");
    const fills = new Uint32Array(lives.count + 2), lines = new Uint32Array(lives.count + 2);
    const stripes = new Uint8Array(lives.count + 2);
    const shade = (band, name, isLit, depth) => {
      const full = mix(scheme.colour(name), text, depth);
      const fill = isLit ? full : mix(full, ground, 0.82);
      fills[band + 1] = pixel(fill);
      lines[band + 1] = pixel(mix(fill, ground, 0.5));
    };
    fills[0] = lines[0] = pixel(ground);
    const known = new Int32Array(4 * lives.kinds.length);  // the first band of each look, and 1
    for (let band = 0; band < lives.count; band++) {
      const kind = lives.kind[band], look = 4 * kind + lives.part[band], like = known[look];
      if (like) {
        fills[band + 1] = fills[like];
        lines[band + 1] = lines[like];
      } else {
        const group = lives.group(band, by);
        const lit = this.whole.lit === null || this.whole.lit === this.whole.nameOf(group);
        shade(band, this.whole.colourOf(group), lit, (kind % 4) * 0.07);
        known[look] = band + 1;
      }
      stripes[band + 1] = lives.part[band];
    }
    shade(lives.count, "unknown", this.whole.lit === null, 0);
    const image = new ImageData(width, height), out = new Uint32Array(image.data.buffer);
    const striped = by === "kind", fine = Math.round(this.ratio);
    for (let row = 0, at = 0; row < height; row++) {
      for (let column = 0; column < width; column++, at++) {
        const own = field[at];
        let colour = fills[own];
        if (own) {
          const below = field[at + width], left = field[at - 1];
          if (row + 2 < height && below !== own
              ? below && field[at + 2 * width] === below && field[at - width] === own
              : column > 1 && left !== own && left && field[at - 2] === left
                && field[at + 1] === own && field[at + 2 * width] === own
                && field[at - 2 * width] === own) {
            colour = lines[own];
          } else if (striped && stripes[own]) {
            const x = column / fine | 0, y = row / fine | 0;  // as page.css has them
            if (stripes[own] === 1 ? x % 7 < 2 : stripes[own] === 2 ? (x + y) % 8 < 2
              : (x - y + 90000) % 12 < 3) colour = lines[own];
          }
        }
        out[at] = colour;
      }
    }
    const context = this.canvas.getContext("2d");
    context.fillStyle = scheme.css("ground");
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    context.putImageData(image, Math.round(LEFT * this.ratio), Math.round(TOP * this.ratio));
    this.annotate(context);
  }

  x(time) {
    const [begin, end] = this.view;
    return LEFT + (time - begin) / (end - begin) * this.width / this.ratio;
  }

  y(size) {
    const [low, high] = this.whole.bytes;
    return TOP + this.height / this.ratio * (1 - (size - low) / (high - low));
  }

  // Axes, the names of the large bands, and the peak.
  annotate(context) {
    const { lives, ratio } = this, { scheme } = this.whole;
    const right = LEFT + this.width / ratio, bottom = TOP + this.height / ratio;
    const family = getComputedStyle(document.body).fontFamily;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = `12px ${family}`;
    context.textBaseline = "middle";
    context.strokeStyle = scheme.css("muted");
    context.fillStyle = scheme.css("muted");
    context.lineWidth = 1;
    context.textAlign = "right";
    for (const [at, text] of ticks(...this.whole.bytes, 5, BYTES)) {
      const y = Math.round(this.y(at)) + 0.5;
      context.fillText(text, LEFT - 8, y);
      context.globalAlpha = 0.22;
      context.beginPath(); context.moveTo(LEFT, y); context.lineTo(right, y); context.stroke();
      context.globalAlpha = 1;
    }
    for (const [at, text] of ticks(...this.view, Math.max(2, this.width / ratio / 110), NANOSECONDS)) {
      const x = this.x(at), half = context.measureText(text).width / 2;
      context.textAlign = x + half > right + RIGHT ? "right" : "center";
      context.fillText(text, context.textAlign === "right" ? right + RIGHT - 1 : x, bottom + 14);
      context.beginPath(); context.moveTo(x, bottom); context.lineTo(x, bottom + 4); context.stroke();
    }
    context.beginPath();
    context.moveTo(LEFT - 0.5, TOP);
    context.lineTo(LEFT - 0.5, bottom + 0.5);
    context.lineTo(right, bottom + 0.5);
    context.stroke();
    context.save();
    context.textAlign = "left";
    context.font = `11px ${family}`;
    context.fillStyle = scheme.css("ground");
    for (const [band, column, columns, row] of this.labels) {
      const room = columns / ratio - 10;
      const text = band < lives.count ? lives.tensor(band)
        : `${lives.restCount.toLocaleString("en-US")} smaller`;
      const short = context.measureText(text).width <= room ? text : text.split(" ")[0];
      if (context.measureText(short).width > room) continue;
      const [low, high] = this.whole.bytes;
      const size = band < lives.count ? lives.sizes[band] : 0;
      const tall = Math.min(size * this.height / (high - low), row) / ratio;
      context.fillText(short, LEFT + column / ratio + 5,
        TOP + (this.height - row) / ratio + Math.max(tall, LABEL_HEIGHT) / 2 + 0.5);
    }
    context.restore();
    this.flag(context, right, bottom);
    context.setTransform(1, 0, 0, 1, 0, 0);
  }

  flag(context, right, bottom) {
    const { lives } = this, { scheme } = this.whole;
    const x = this.x(lives.times[lives.peak]), level = lives.levels[lives.peak];
    const y = Math.max(TOP, Math.min(bottom, this.y(level)));
    if (x < LEFT || x > right) return;
    context.strokeStyle = context.fillStyle = scheme.css("text");
    context.setLineDash([3, 3]);
    context.beginPath(); context.moveTo(x, y); context.lineTo(x, bottom); context.stroke();
    context.setLineDash([]);
    const isLeft = x > (LEFT + right) / 2;
    context.textAlign = isLeft ? "right" : "left";
    context.font = `600 13px ${getComputedStyle(document.body).fontFamily}`;
    context.fillText(`peak ${readableBytes(level)}`, x + (isLeft ? -9 : 9), Math.max(9, y - 10));
    context.beginPath(); context.arc(x, y, 4.5, 0, 7);
    context.fillStyle = scheme.css("kept"); context.fill();
    context.strokeStyle = scheme.css("ground"); context.lineWidth = 2; context.stroke();
  }

  // What follows the pointer.

  get current() { return this.pointed >= 0 ? this.pointed : this.kept; }

  // Where a band lies in each column: the bytes below it.
  below(band) {
    const { lives, columns, width } = this, below = new Float64Array(width + 1);
    for (let each = 0; each < band; each++) {
      const first = columns[lives.born[each]], last = columns[lives.died[each]];
      if (first < last) { below[first] += lives.sizes[each]; below[last] -= lives.sizes[each]; }
    }
    for (let column = 1; column < width; column++) below[column] += below[column - 1];
    return below;
  }

  outline(context, band, isKept) {
    const { lives, ratio } = this, { scheme } = this.whole, below = this.below(band);
    const first = this.columns[lives.born[band]], last = this.columns[lives.died[band]];
    if (first >= last) return;
    const x = (column) => LEFT + column / ratio, size = lives.sizes[band];
    context.beginPath();
    for (let column = first; column < last; column++) {
      const y = this.y(below[column] + size);
      context.lineTo(x(column), y); context.lineTo(x(column + 1), y);
    }
    for (let column = last - 1; column >= first; column--) {
      const y = this.y(below[column]);
      context.lineTo(x(column + 1), y); context.lineTo(x(column), y);
    }
    context.closePath();
    context.lineJoin = "round";
    for (const [width, name] of [[5, "ground"], [isKept ? 2.5 : 1.5, "text"]]) {
      context.lineWidth = width;
      context.strokeStyle = scheme.css(name);
      context.stroke();
    }
  }

  drawOver() {
    const { ratio, over } = this, { scheme } = this.whole;
    const context = over.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, over.width, over.height);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.save();
    context.beginPath();
    context.rect(LEFT - 1, TOP - 3, this.width / ratio + 2, this.height / ratio + 6);
    context.clip();
    for (const band of new Set([this.pointed, this.kept])) {
      if (band >= 0) this.outline(context, band, band === this.kept);
    }
    context.restore();
    const bottom = TOP + this.height / ratio;
    const time = this.lives.times[this.event];
    const column = this.columns[this.event];
    if (this.event !== this.lives.peak && time < this.view[1] && column < this.width && this.event >= this.moments[0]) {
      const x = Math.round(LEFT + column / ratio) + 0.5;
      const y = Math.max(TOP, Math.min(bottom, this.y(this.lives.levels[this.event])));
      context.strokeStyle = scheme.css("text");
      context.globalAlpha = 0.55;
      context.beginPath(); context.moveTo(x, y); context.lineTo(x, bottom); context.stroke();
      context.globalAlpha = 1;
      context.lineWidth = 2;
      context.beginPath(); context.arc(x, y, 4.5, 0, 7); context.stroke();
    }
    if (this.drag?.box) {
      const [left, top, right, low] = this.drag.box;
      context.fillStyle = context.strokeStyle = scheme.css("link");
      context.globalAlpha = 0.18;
      context.fillRect(left, top, right - left, low - top);
      context.globalAlpha = 1;
      context.lineWidth = 1;
      context.strokeRect(left, top, right - left, low - top);
    }
  }

  follow() {
    this.drawOver();
    this.tell();
    this.list();
  }

  // The tensor in words.
  tell() {
    const band = this.current, { lives, card } = this;
    if (this.told === band && this.toldOf === lives) return;
    this.told = band;
    this.toldOf = lives;
    if (band < 0) {
      const hints = ["Point at a band, or tap it, and its tensor stands here; press, and it stays.",
        "Drag to zoom: across for time, a box for both. Twice pressed shows all again.",
        "A colour's name below lights it alone. On the keyboard: arrows, Enter, + and −, P for the "
          + "peak, Escape."];
      card.replaceChildren(...hints.map((words) => element("p", "hint", words)));
      return;
    }
    const kind = lives.kinds[lives.kind[band]], size = lives.sizes[band];
    const facts = element("dl", "facts");
    const fact = (name, ...words) => facts.append(
      element("dt", "", name), element("dd", "", ...words));
    const each = lives.tensors[band] > 1 ? " together" : "";
    fact("bytes", `${readableBytes(size)}${each} (${exactly(size)})`);
    const frame = lives.frame(kind);
    if (frame) {
      const code = element("code", "", frame[3] || "");
      fact("line", `${lives.place(kind)}, in ${frame[2].split(".").at(-1)}`, element("br"), code);
    } else fact("line", lives.why || "no line of code is known for it");
    const born = lives.times[lives.born[band]];
    fact("born", lives.born[band] ? `at ${readableTime(born)}` : "before the step");
    fact("freed", this.freed(band));
    const [part, meaning] = lives.parts[lives.part[band]];
    fact("kind", `${part}: ${meaning}${kind.gradient ? "; made by the backward pass" : ""}`);
    const scope = kind.scope.filter(Boolean).join("/");
    if (scope) fact("layer", scope);
    const callers = kind.stack.slice(0, -1).reverse().map((at) => lives.frames[at]);
    if (callers.length) {
      fact("called at", callers.map(([file, line]) => `${file}:${line}`).join(", "));
    }
    card.replaceChildren(element("h4", "", `${lives.tensor(band)} ${kind.dtype}`), facts);
  }

  // When, and after the making of what.
  freed(band) {
    const { lives } = this, event = lives.died[band];
    if (event >= lives.times.length) return "not in this step";
    const lived = readableTime(lives.times[event] - lives.times[lives.born[band]]);
    const when = `at ${readableTime(lives.times[event])}`
      + (lives.born[band] ? `, ${lived} later` : "");
    const latest = lives.latest[event];
    if (latest < 0) return when;
    const kind = lives.kinds[lives.kind[latest]];
    const place = kind.stack.length ? ` at ${lives.shortPlace(kind)}` : "";
    return latest === band ? `${when}: nothing was made in between`
      : `${when}, once ${kind.tensor} was made${place}`;
  }

  // The table: what is live at the moment, largest first.
  list() {
    const { lives, event } = this, rows = [];
    let tensors = lives.alive[event], size = lives.levels[event];
    for (const band of lives.bySize) {
      if (rows.length === ROWS) break;
      if (!lives.isAlive(band, event)) continue;
      rows.push(band);
      tensors -= lives.tensors[band];
      size -= lives.sizes[band];
    }
    const peak = event === lives.peak ? ", the peak" : "";
    const caption = `${readableBytes(lives.levels[event])} (${exactly(lives.levels[event])}) `
      + `live at ${readableTime(lives.times[event])}${peak}`;
    if (this.table.caption.textContent !== caption) this.table.caption.textContent = caption;
    const key = [event, this.current, this.whole.by, this.kept].join(" ");
    if (this.listed === key && this.listedOf === lives) return;
    this.listed = key;
    this.listedOf = lives;
    const made = rows.map((band) => {
      const button = element("button", "",
        element("i", `key ${this.whole.classOf(lives.group(band, this.whole.by))}`),
        lives.tensor(band));
      button.type = "button";
      button.dataset.band = band;
      button.setAttribute("aria-pressed", band === this.kept);
      const head = element("th", "", button);
      head.scope = "row";
      const figure = element("td", "figure", readableBytes(lives.sizes[band]));
      figure.title = exactly(lives.sizes[band]);
      const kind = lives.kinds[lives.kind[band]];
      const place = element("td", "", lives.shortPlace(kind));
      place.title = lives.place(kind);
      return element("tr", band === this.current ? "current" : "", head, figure,
        place);
    });
    if (tensors || size) {
      const words = tensors ? `${tensors.toLocaleString("en-US")} smaller`
        : "smaller and shorter-lived";
      made.push(element("tr", "", element("th", "", words),
        element("td", "figure", readableBytes(size)), element("td")));
    }
    const focused = this.table.contains(document.activeElement)
      ? document.activeElement.dataset.band : undefined;
    this.table.tBodies[0].replaceChildren(...made);
    if (focused !== undefined) {
      this.table.querySelector(`[data-band="${focused}"]`)?.focus({ preventScroll: true });
    }
  }

  // Pointer and keys.

  listen() {
    const { canvas } = this;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      this.drag = { from: at(event), box: null };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      if (this.drag) this.stretch(x, y, event.pointerType === "mouse");
      if (!this.drag?.box) this.point(x, y);
      this.later();
    });
    canvas.addEventListener("pointerup", (event) => {
      const { drag } = this, [x, y] = at(event);
      this.drag = null;
      if (drag?.box) this.zoomTo(drag.box);
      else if (drag) { this.point(x, y); this.keep(this.pointed); }
      this.later();
    });
    canvas.addEventListener("pointercancel", () => { this.drag = null; this.later(); });
    canvas.addEventListener("pointerleave", () => { this.pointed = -1; this.later(); });
    canvas.addEventListener("dblclick", () => this.whole.reset());
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !this.key(event)) return;
      event.preventDefault();
      this.later();
    });
    this.table.addEventListener("click", (event) => {
      const button = event.target.closest("[data-band]");
      if (button) { this.keep(Number(button.dataset.band)); this.later(); }
    });
  }

  later() {
    this.waiting ??= requestAnimationFrame(() => { this.waiting = undefined; this.follow(); });
  }

  point(x, y) {
    const column = Math.floor((x - LEFT) * this.ratio), row = Math.floor((y - TOP) * this.ratio);
    this.pointed = -1;
    if (column < 0 || column >= this.width) return;
    this.event = this.moments[column];
    if (row < 0 || row >= this.height) return;
    const band = this.field[row * this.width + column] - 1;
    this.pointed = band < this.lives.count ? band : -1;
  }

  keep(band) { this.kept = this.kept === band ? -1 : band; }

  stretch(x, y, isMouse) {
    const [left, top] = this.drag.from;
    if (Math.abs(x - left) < LEAST_DRAG && Math.abs(y - top) < LEAST_DRAG && !this.drag.box) return;
    const right = LEFT + this.width / this.ratio, bottom = TOP + this.height / this.ratio;
    const tall = isMouse && Math.abs(y - top) >= TALL_DRAG;  // else only the time is meant
    const within = (low, value, high) => Math.max(low, Math.min(high, value));
    const across = [left, x].map((each) => within(LEFT, each, right)).sort((a, b) => a - b);
    const down = tall
      ? [top, y].map((each) => within(TOP, each, bottom)).sort((a, b) => a - b) : [TOP, bottom];
    this.drag.box = [across[0], down[0], across[1], down[1]];
  }

  zoomTo([left, top, right, bottom]) {
    const wide = this.width / this.ratio, high = this.height / this.ratio;
    if (right - left < 2) return;
    const [begin, end] = this.view, time = (x) => begin + (end - begin) * (x - LEFT) / wide;
    const [low, most] = this.whole.bytes, size = (y) => most - (most - low) * (y - TOP) / high;
    this.span(time(left), time(right));
    if (bottom - top < high - 1) this.whole.bytes = [size(bottom), size(top)];
    this.whole.zoomed();
  }

  // Show this stretch of time, and no less than can be drawn.
  span(begin, end) {
    const { lives } = this, least = Math.min(lives.end, 50);
    const long = Math.min(lives.end, Math.max(least, end - begin));
    const from = Math.max(0, Math.min(lives.end - long, begin));
    this.view = [from, from + long];
  }

  key(event) {
    const { lives } = this, last = lives.times.length - 1;
    const go = (to) => {
      this.event = Math.max(0, Math.min(last, to));
      this.pointed = -1;
      const time = lives.times[this.event], [begin, end] = this.view;
      if (time < begin || time >= end) {
        this.span(time - (end - begin) / 2, time + (end - begin) / 2);
        this.draw();
      }
    };
    const zoom = (share) => {
      const [begin, end] = this.view, time = lives.times[this.event];
      const middle = time >= begin && time < end ? time : (begin + end) / 2;
      this.span(middle - (middle - begin) * share, middle + (end - middle) * share);
      this.whole.zoomed();
    };
    const walk = (way) => {
      let band = this.pointed >= 0 ? this.pointed : way > 0 ? -1 : lives.count;
      do band += way; while (band >= 0 && band < lives.count && !lives.isAlive(band, this.event));
      if (band >= 0 && band < lives.count) this.pointed = band;
    };
    const far = event.shiftKey ? Math.max(1, Math.round(last / 20)) : 1;
    const actions = {
      ArrowRight: () => go(this.event + far),
      ArrowLeft: () => go(this.event - far),
      ArrowUp: () => walk(1),
      ArrowDown: () => walk(-1),
      Home: () => go(0),
      End: () => go(last),
      p: () => go(lives.peak),
      "+": () => zoom(0.5),
      "=": () => zoom(0.5),
      "-": () => zoom(2),
      Enter: () => this.current >= 0 && this.keep(this.current),
      Escape: () => { this.kept = this.pointed = -1; this.whole.reset(); },
    };
    if (!actions[event.key]) return false;
    actions[event.key]();
    return true;
  }
}

// All figures that share colours and the scale of bytes.
class Whole {
  constructor(root) {
    this.root = root;
    this.cells = [...root.querySelectorAll(".told")];
    this.opened = new Map();
    this.by = "line";
    this.lit = null;
    this.scheme = scheme();
    this.controls();
    this.figures = [...root.querySelectorAll(".lives-figure")].map((each) => new Figure(this, each));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.scheme = scheme();
      this.draw();
    });
  }

  get readable() { return { bytes: readableBytes, time: readableTime }; }

  async open(cell) {
    if (!this.opened.has(cell)) {
      const data = await unpack(this.cells[cell].dataset.lives);
      this.opened.set(cell, new Lives(data, Number(this.root.dataset.depth)));
    }
    return this.opened.get(cell);
  }

  async start() {
    for (const figure of this.figures) figure.show(await this.open(Number(figure.root.dataset.cell)));
    for (const each of this.root.querySelectorAll("[hidden]:not(.told)")) each.hidden = false;
    for (const each of this.root.querySelectorAll("h3")) each.hidden = true;  // the choice says it
    this.renew();
  }

  async choose(figure, cell) {
    figure.show(await this.open(cell));
    figure.root.querySelector("h3").textContent = this.cells[cell].dataset.name;
    this.renew();
  }

  renew() {
    this.rank();
    this.legend();
    this.reset();
  }

  controls() {
    const bar = this.root.querySelector(".lives-controls");
    const choice = element("fieldset", "", element("legend", "", "coloured by"));
    const name = `lives-by-${[...document.querySelectorAll(".lives")].indexOf(this.root)}`;
    for (const by of BY) {
      const radio = element("input");
      Object.assign(radio, { type: "radio", name, value: by, checked: by === this.by });
      radio.addEventListener("change", () => {
        this.by = by;
        this.lit = null;
        this.recolour();
      });
      choice.append(element("label", "", radio, element("span", "", by)));
    }
    this.back = element("button", "", "show all");
    this.back.type = "button";
    this.back.addEventListener("click", () => this.reset());
    bar.append(choice, this.back);
  }

  reset() {
    for (const figure of this.figures) figure.view = [0, figure.lives.end];
    this.bytes = [0, 1.04 * Math.max(...this.figures.map((figure) => figure.lives.highest))];
    this.zoomed();
  }

  zoomed() {
    this.back.disabled = !this.bytes[0]
      && this.figures.every(({ view, lives }) => view[0] === 0 && view[1] === lives.end);
    this.draw();
  }

  draw() {
    for (const figure of this.figures) figure.draw();
  }

  recolour() {
    this.rank();
    this.legend();
    this.draw();
  }

  // The largest groups at the peaks that are shown get a colour each, the others one together.
  rank() {
    this.sums = this.figures.map((figure) => figure.lives.atPeak(this.by));
    const all = new Map();
    for (const sums of this.sums) {
      for (const [group, size] of sums) all.set(group, Math.max(size, all.get(group) || 0));
    }
    const { parts } = this.figures[0].lives;
    const order = this.by === "kind" ? parts.map(([name]) => name)
      : [...all.keys()].sort((one, other) => all.get(other) - all.get(one));
    this.ranked = new Map(order.slice(0, COLOURS).map((group, at) => [group, at]));
  }

  nameOf(group) { return this.ranked.has(group) ? group : ""; }

  classOf(group) {
    if (!this.ranked.has(group)) return "unknown";
    return this.by === "kind" ? group : `fill${this.ranked.get(group)}`;
  }

  colourOf(group) {
    if (!this.ranked.has(group)) return "unknown";
    return this.by === "kind" ? group : `s${this.ranked.get(group)}`;
  }

  // Each colour with its group and its bytes at the peak; pressed, it alone is lit.
  legend() {
    const root = this.root.querySelector(".lives-legend");
    const total = this.sums.map((sums) => {
      const found = new Map();
      for (const [group, size] of sums) {
        const name = this.nameOf(group);
        found.set(name, (found.get(name) || 0) + size);
      }
      return found;
    });
    const names = [...this.ranked.keys(), ""].filter((name) => total.some((each) => each.get(name)));
    const made = names.map((name) => {
      const sizes = total.map((each) => readableBytes(each.get(name) || 0)).join(" · ");
      const code = this.by === "line" && name
        ? this.figures.map((figure) => figure.lives.code(name)).find(Boolean) : "";
      const shown = this.by === "line" ? name.split("/").at(-1) : name;
      const button = element("button", "", element("i", `key ${this.classOf(name)}`),
        element("b", "", sizes), element("span", "", shown || "all others"));
      if (code) button.append(element("code", "", code));
      button.type = "button";
      button.title = code ? `${name}\n${code}` : name;
      button.setAttribute("aria-pressed", this.lit === name);
      button.addEventListener("click", () => {
        this.lit = this.lit === name ? null : name;
        this.recolour();
        [...root.children][names.indexOf(name)]?.focus();
      });
      return button;
    });
    root.replaceChildren(...made);
  }
}

for (const root of document.querySelectorAll(".lives")) {
  root.lives = new Whole(root);
  root.lives.start().catch((error) => root.prepend(element("p", "note failed",
    `The picture can't be drawn in this browser (${error.message}); the table is complete.`)));
}
}
