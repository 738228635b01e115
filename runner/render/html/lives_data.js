// A step's lives as lives.py packed them, and how their figures and colours are written.

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
const exactly = (value) => `${value.toLocaleString("en-US")} ${value === 1 ? "byte" : "bytes"}`;

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

function sums(changes) {
  let now = 0;
  return changes.map((change) => (now += change));
}

// One step: its events, its bands from the lowest to the highest, the bytes live at each event.
class Lives {
  constructor(data, depth) {
    Object.assign(this, data);
    this.count = data.bytes.length;
    this.times = Float64Array.from(sums(data.times));
    this.end = Math.max(data.end, this.times.at(-1) + 1);
    const events = this.times.length;
    this.born = Int32Array.from(sums(data.born));
    this.died = Int32Array.from(sums(data.died));
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
    this.rest = sums(data.rest);
    this.rest.forEach((size, event) => { this.levels[event] += size; });
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
