// The figures of a page that share their colours and their scale of bytes: one of a run, two of a
// sweep. Without the script the table of what is live at the peak stands alone.

const COLOURS = 8;
const BY = ["line", "layer", "op", "kind"];

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
    const places = [...root.querySelectorAll(".lives-figure")];
    this.figures = places.map((each) => new Figure(this, each));
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
    for (const figure of this.figures) {
      figure.show(await this.open(Number(figure.root.dataset.cell)));
    }
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
    const names = [...this.ranked.keys(), ""]
      .filter((name) => total.some((each) => each.get(name)));
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
