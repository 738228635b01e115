// The figure of a page: its colours and its scale of bytes. Without the script the table of what is
// live at the peak stands alone.

const COLOURS = 8;
const BY = ["line", "layer", "op", "kind"];

class Whole {
  constructor(root) {
    this.root = root;
    this.by = "line";
    this.lit = null;
    this.scheme = scheme();
    this.controls();
    this.figure = new Figure(this, root.querySelector(".lives-figure"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.scheme = scheme();
      this.draw();
    });
  }

  get readable() { return { bytes: readableBytes, time: readableTime }; }

  async start() {
    const { lives, depth } = this.root.dataset;
    this.figure.show(new Lives(await unpack(lives), Number(depth)));
    for (const each of this.root.querySelectorAll("[hidden]")) each.hidden = false;
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
    const { lives } = this.figure;
    this.figure.view = [0, lives.end];
    this.bytes = [0, 1.04 * lives.highest];
    this.zoomed();
  }

  zoomed() {
    const { view, lives } = this.figure;
    this.back.disabled = !this.bytes[0] && view[0] === 0 && view[1] === lives.end;
    this.draw();
  }

  draw() { this.figure.draw(); }

  recolour() {
    this.rank();
    this.legend();
    this.draw();
  }

  // The largest groups at the peak get a colour each, the others one together.
  rank() {
    this.sums = this.figure.lives.atPeak(this.by);
    const { parts } = this.figure.lives;
    const order = this.by === "kind" ? parts.map(([name]) => name)
      : [...this.sums.keys()].sort((one, other) => this.sums.get(other) - this.sums.get(one));
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
    const total = new Map();
    for (const [group, size] of this.sums) {
      const name = this.nameOf(group);
      total.set(name, (total.get(name) || 0) + size);
    }
    const names = [...this.ranked.keys(), ""].filter((name) => total.get(name));
    const made = names.map((name) => {
      const size = readableBytes(total.get(name));
      const code = this.by === "line" && name ? this.figure.lives.code(name) : "";
      const shown = this.by === "line" ? name.split("/").at(-1) : name;
      const button = element("button", "", element("i", `key ${this.classOf(name)}`),
        element("b", "", size), element("span", "", shown || "all others"));
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
