// One picture with its table: what lies under the pointer, in words, and what pointer and keys do.

const ROWS = 40;  // of the table; lives.py has the same number
const LEAST_DRAG = 5, TALL_DRAG = 28;

class Figure extends Drawing {
  constructor(whole, root) {
    super(whole, root.querySelector(".lives-plot"));
    this.root = root;
    this.card = root.querySelector(".lives-tensor");
    this.table = root.querySelector("table");
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  show(lives) {
    this.lives = lives;
    this.kept = this.pointed = -1;
    this.moment(lives.peak);
    this.view = [0, lives.end];
  }

  // An event, and a time from it on at which nothing else has happened yet.
  moment(event, time = 0) {
    this.event = event;
    this.time = Math.max(time, this.lives.times[event]);
  }

  draw() {
    super.draw();
    if (this.field) this.follow();
  }

  get current() { return this.pointed >= 0 ? this.pointed : this.kept; }

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
    const [begin, end] = this.view;
    if (this.event !== this.lives.peak && begin <= this.time && this.time < end) {
      const x = Math.round(this.x(this.time)) + 0.5;
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
        "A colour's name below lights it alone. On the keyboard: arrows, Enter, + and −, P for "
          + "the peak, Escape."];
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
    if (kind.block) {
      fact("in", `one block of XLA's (${exactly(kind.block)}), which has this in it when it is at `
        + "its fullest; born and freed are the block's");
    }
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

  // When, and between the making of what: of a free TensorFlow tells no line.
  freed(band) {
    const { lives } = this, event = lives.died[band];
    if (event >= lives.times.length) return "not in this step";
    const lived = readableTime(lives.times[event] - lives.times[lives.born[band]]);
    const when = `at ${readableTime(lives.times[event])}`
      + (lives.born[band] ? `, ${lived} later` : "");
    const { latest } = lives, before = event ? latest[event - 1] : -1;
    let later = event;
    while (later < latest.length && latest[later] === before) later++;
    const made = (each) => {
      const kind = lives.kinds[lives.kind[each]];
      return `${kind.tensor}${kind.stack.length ? ` at ${lives.shortPlace(kind)}` : ""}`;
    };
    const known = [];
    if (before >= 0) known.push(`after ${before === band ? "its own birth" : made(before)}`);
    if (later < latest.length) known.push(`before ${made(latest[later])}`);
    return known.length ? `${when}: ${known.join(", ")}` : when;
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
      + `live at ${readableTime(this.time)}${peak}`;
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
    const [begin, end] = this.view;
    this.moment(this.moments[column], begin + (end - begin) * column / this.width);
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
      this.moment(Math.max(0, Math.min(last, to)));
      this.pointed = -1;
      const time = lives.times[this.event], [begin, end] = this.view;
      if (time < begin || time >= end) {
        this.span(time - (end - begin) / 2, time + (end - begin) / 2);
        this.draw();
      }
    };
    const zoom = (share) => {
      const [begin, end] = this.view, { time } = this;
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
