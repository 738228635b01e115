// Draws one step's lives as lives_layout.py laid them out.
//
// Each column of pixels shows one moment: the highest of those that fall into it. Into a field of
// pixels goes which band lies there, so pointing is a look-up; colours are laid on after that.

const LEFT = 60, RIGHT = 10, TOP = 22, BOTTOM = 24;
const LABEL_HEIGHT = 13;

// Two canvases: one for the bands, one over it for what follows the pointer.
class Drawing {
  constructor(whole, plot) {
    this.whole = whole;
    this.plot = plot;
    [this.canvas, this.over] = plot.querySelectorAll("canvas");
  }

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
    const most = Math.max(2, this.width / ratio / 110);
    for (const [at, text] of ticks(...this.view, most, NANOSECONDS)) {
      const x = this.x(at), half = context.measureText(text).width / 2;
      context.textAlign = x + half > right + RIGHT ? "right" : "center";
      context.fillText(text, context.textAlign === "right" ? right + RIGHT - 1 : x, bottom + 14);
      context.beginPath();
      context.moveTo(x, bottom);
      context.lineTo(x, bottom + 4);
      context.stroke();
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
}
