"use strict";
// Draws what Python has put into the page. Times are nanoseconds; x is time with idle stretches folded.
(async () => {
  const $ = (id) => document.getElementById(id);
  if (!window.DecompressionStream) { $("broken").hidden = false; return; }
  const packed = Uint8Array.from(atob($("data").textContent), (c) => c.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const doc = JSON.parse(await new Response(unpacked).text());
  const { runs, order, words, unit } = doc;

  // ---- data
  const sums = (steps) => { const out = new Float64Array(steps.length); let at = 0; for (let i = 0; i < steps.length; i++) out[i] = at += steps[i]; return out; };
  for (const run of runs) {
    run.on = true;
    run.queue.t = sums(run.queue.t);
    run.drops = sums(run.drops);
    run.marks = sums(run.marks);
    run.goodput.bin = sums(run.goodput.bin);
    run.lane = new Map();
    for (const lane of run.lanes) {
      lane.pk.a = sums(lane.pk.a);
      lane.pk.k = sums(lane.pk.k);
      lane.pk.e = lane.pk.a.map((at, i) => at + lane.pk.d[i]);
      lane.win.t = sums(lane.win.t);
      lane.dropped = lane.drops.map(([at]) => at);
      lane.repaired = lane.fast.map(([at]) => at);
      endOf(lane);
      [lane.expired, lane.probed] = [0, 1].map((kind) => lane.waits.filter(([, , , probe]) => probe === kind).map(([, at]) => at).sort((a, b) => a - b));
      run.lane.set(lane.id, lane);
    }
    run.others.dropped = run.others.drops;
    endOf(run.others);
  }
  // Waits by their ends, so that those of a view are found without a look at all of them.
  function endOf(lane) {
    lane.waits.sort((one, other) => one[1] - other[1]);
    lane.ends = lane.waits.map(([, end]) => end);
    lane.longestWait = lane.waits.reduce((most, [from, end]) => Math.max(most, end - from), 0);
  }
  // The waits that overlap a stretch of time.
  function eachWait(lane, t0, t1, act) {
    for (let i = after(lane.ends, t0 - 1); i < lane.ends.length && lane.ends[i] - lane.longestWait <= t1; i++) { const wait = lane.waits[i]; if (wait[1] >= t0 && wait[0] <= t1) act(wait); }
  }
  function waitsIn(lane, t0, t1) { const found = []; eachWait(lane, t0, t1, (wait) => found.push(wait)); return found; }
  const shown = () => runs.filter((run) => run.on);
  // The first index whose value is greater than `at`.
  const after = (sorted, at) => { let low = 0, high = sorted.length; while (low < high) { const mid = (low + high) >> 1; if (sorted[mid] > at) high = mid; else low = mid + 1; } return low; };

  // ---- colours
  const night = matchMedia("(prefers-color-scheme: dark)");
  let printing = false, hatch = null;
  const stamps = new Map();
  const isDark = () => night.matches && !printing;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const own = (run) => (isDark() ? run.dark : run.light);
  let ink = {};
  function theme() {
    look();
    document.documentElement.classList.toggle("dark", isDark());
    for (const name of ["paper", "ink", "muted", "grid", "soft", "wait", "waitfill", "drop", "fast"]) ink[name] = css(name);
    document.querySelectorAll("[data-run]").forEach((part) => part.style.setProperty("--own", own(runs[part.dataset.run])));
    const tile = document.createElement("canvas"); tile.width = tile.height = 8;
    const c = tile.getContext("2d"); c.strokeStyle = ink.wait; c.globalAlpha = 0.8; c.lineWidth = 1.2;
    c.beginPath(); for (const k of [-8, 0, 8]) { c.moveTo(k, 8); c.lineTo(k + 8, 0); } c.stroke();
    hatch = tile;
    stamps.clear();
  }

  // ---- time with folded gaps
  let folds = [], total = 1, view = [0, 1];
  function refold() {
    const list = shown(), begin = Math.min(...list.map((r) => r.begin)), end = Math.max(...list.map((r) => r.end));
    const spans = list.flatMap((r) => r.busy).sort((a, b) => a[0] - b[0]), busy = [];
    for (const [a, b] of spans) { const last = busy[busy.length - 1]; if (last && a <= last[1]) last[1] = Math.max(last[1], b); else busy.push([a, b]); }
    const active = busy.reduce((sum, [a, b]) => sum + b - a, 0), least = active * 0.08, width = active * 0.035;
    folds = [];
    let at = begin, x = 0;
    const add = (t0, t1, gap) => { const w = gap ? width : t1 - t0; if (t1 > t0) { folds.push({ t0, t1, x0: x, x1: x + w, gap }); x += w; } };
    if ($("fold").checked) {
      for (let i = 0; i + 1 < busy.length; i++) {
        const [from, to] = [busy[i][1], busy[i + 1][0]];
        if (to - from > least) { add(at, from, false); add(from, to, true); at = to; }
      }
    }
    add(at, end, false);
    total = Math.max(x, 1);
    for (const run of runs) for (const lane of [...run.lanes, run.others]) lane.columns = null;
  }
  // Most times are asked for in order.
  let lastFold = 0;
  const foldOf = (t) => { let i = Math.min(lastFold, folds.length - 1); while (i + 1 < folds.length && folds[i + 1].t0 <= t) i++; while (i > 0 && folds[i].t0 > t) i--; return folds[lastFold = i]; };
  const toX = (t) => { const f = foldOf(t); return f.x0 + Math.max(-1e15, Math.min(1, (t - f.t0) / (f.t1 - f.t0))) * (f.x1 - f.x0); };
  const toT = (x) => { let f = folds[0]; for (const next of folds) { if (next.x0 > x) break; f = next; } return f.t0 + Math.min(1, (x - f.x0) / (f.x1 - f.x0)) * (f.t1 - f.t0); };

  // ---- words with numbers
  const fill = (pattern, ...values) => { let i = 0; return pattern.replace(/\{\}/g, () => values[i++]); };
  // Kept: to make one takes longer than to write a hundred numbers.
  const upTo = Array.from({ length: 7 }, (_, digits) => new Intl.NumberFormat("en", { maximumFractionDigits: digits }));
  const inMs = new Intl.NumberFormat("en", { minimumFractionDigits: 3, maximumFractionDigits: 3 });
  const ms = (t) => inMs.format(t / 1e6) + " ms";
  const lasting = (t) => (t >= 1e9 ? +(t / 1e9).toPrecision(3) + " s" : t >= 1e6 ? +(t / 1e6).toPrecision(3) + " ms" : +(t / 1e3).toPrecision(3) + " us");
  const size = (kib) => (kib >= 1048576 ? +(kib / 1048576).toPrecision(3) + " GiB" : kib >= 1024 ? +(kib / 1024).toPrecision(3) + " MiB" : +kib.toPrecision(3) + " KiB");
  const bits = (v) => (v >= 1e9 ? +(v / 1e9).toPrecision(3) + " Gbit/s" : +(v / 1e6).toPrecision(3) + " Mbit/s");

  const lost = (run, segment) => fill(run.packets ? words.segment : words.byte, segment.toLocaleString("en"));

  // ---- charts
  const charts = [], sync = uPlot.sync("incast");
  const phone = () => innerWidth < 640;
  const FONT = "12px system-ui, sans-serif";
  let moving = false, calm = 0, frame = 0, selected = runs[0].lanes.reduce((slow, lane) => (lane.end - lane.begin > slow.end - slow.begin ? lane : slow)).id, cursorAt = null;
  // Asked for once per picture: a browser takes longer to tell than a loop takes for a mark.
  let pixelsPerPoint = 1;
  const ratio = () => pixelsPerPoint, look = () => { pixelsPerPoint = devicePixelRatio || 1; };
  const widthOf = (u) => u.bbox.width / ratio();
  function ticks(u) {
    const out = [], px = widthOf(u), per = (view[1] - view[0]) / px;
    const raw = per * 85, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw);
    let last = -Infinity, fixed = false;
    for (const f of folds) {
      if (f.gap || f.x1 < view[0] || f.x0 > view[1]) continue;
      const from = Math.max(f.t0, toT(view[0])), to = Math.min(f.t1, toT(view[1]));
      // After a fold the axis says at once where it goes on.
      if (f.x0 > view[0] && f.x0 > 0 && !(fixed && f.x0 - last < per * 55)) { if (f.x0 - last < per * 45) out.pop(); out.push(f.x0); last = f.x0; fixed = true; }
      for (let t = Math.ceil(from / step) * step; t <= to; t += step) { const x = toX(t); if (x - last > per * 60) { out.push(x); last = x; fixed = false; } }
    }
    // As exact as a pixel; times after folds are not round.
    u.digits = Math.max(0, Math.min(6, 8 - Math.floor(Math.log10(step))));
    return out;
  }
  const axis = (more) => ({ stroke: () => ink.muted, grid: { stroke: () => ink.grid, width: 1 }, ticks: { stroke: () => ink.grid, width: 1, size: 4 }, font: FONT, labelFont: FONT, ...more });
  function make(id, height, top, more, paint) {
    const el = $(id);
    el.replaceChildren();
    const width = Math.max(200, el.clientWidth);
    const u = new uPlot({
      width, height, legend: { show: false }, padding: [6, 22, 0, 0],
      cursor: { sync: { key: sync.key, setSeries: false }, drag: { x: false, y: false, setScale: false }, y: false, points: { show: false } },
      scales: { x: { time: false, min: view[0], max: view[1], range: () => view }, y: { range: () => [0, top], ...more.scale } },
      series: [{}, { paths: () => null, points: { show: false } }],
      axes: [axis({ splits: ticks, values: (u, at) => at.map((x) => upTo[u.digits].format(toT(x) / 1e6)), size: 26, space: 1 }), axis({ size: 52, labelSize: 16, labelGap: 0, ...more.y })],
      hooks: { drawClear: [paper], draw: [paint], setCursor: [onCursor] },
    }, [[0, total], [0, top]], el);
    u.more = more;
    pointer(u);
    charts.push(u);
    return u;
  }
  function paper(u) {
    const c = u.ctx, { left, top, width, height } = u.bbox;
    for (const f of folds) {
      if (!f.gap || f.x1 < view[0] || f.x0 > view[1]) continue;
      const a = Math.max(left, place(u, f.x0)), b = Math.min(left + width, place(u, f.x1));
      c.fillStyle = ink.soft; c.fillRect(a, top, b - a, height);
    }
    const k = ratio();
    c.fillStyle = ink.muted; c.font = `${12 * k}px system-ui, sans-serif`; c.textAlign = "right"; c.textBaseline = "top";
    c.fillText("ms", left - 8 * k, top + height + 9 * k);
  }
  const place = (u, x) => u.bbox.left + ((x - view[0]) / (view[1] - view[0])) * u.bbox.width;
  // Where a time is on a chart, for very many of them; from its left edge if that is 0.
  function across(u, left = u.bbox.left) {
    const scale = u.bbox.width / (view[1] - view[0]);
    let fold = null, slope = 0, base = 0;
    return (t) => {
      if (!fold || t < fold.t0 || t >= fold.t1) {
        fold = foldOf(t);
        slope = ((fold.x1 - fold.x0) / (fold.t1 - fold.t0)) * scale;
        base = left + (fold.x0 - view[0]) * scale - fold.t0 * slope;
      }
      return base + Math.min(t, fold.t1) * slope;
    };
  }
  const clip = (u) => { const c = u.ctx; c.save(); c.beginPath(); c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height); c.clip(); return c; };
  function gaps(u) {
    const c = u.ctx, { left, top, width, height } = u.bbox;
    for (const f of folds) {
      if (!f.gap || f.x1 < view[0] || f.x0 > view[1]) continue;
      const a = Math.max(left, place(u, f.x0)), b = Math.min(left + width, place(u, f.x1));
      if (b - a < 12 * ratio()) continue;
      c.save(); c.translate((a + b) / 2, top + height / 2); if (height > 90 * ratio()) c.rotate(-Math.PI / 2); c.fillStyle = ink.muted; c.font = `${11 * ratio()}px system-ui, sans-serif`; c.textAlign = "center"; c.textBaseline = "middle";
      const label = fill(words.idle, lasting(f.t1 - f.t0)), w = c.measureText(label).width + 6 * ratio();
      if (height > 90 * ratio() || w < b - a) { c.fillStyle = ink.soft; c.fillRect(-w / 2, -8 * ratio(), w, 16 * ratio()); c.fillStyle = ink.muted; c.fillText(label, 0, 0); }
      c.restore();
    }
  }
  // A stepped line: in each column of pixels its first, least, greatest and last value.
  function steps(u, t, v, scale, colour, dash, filled, from, to) {
    const zero = u.valToPos(0, "y", true), slope = (u.valToPos(1, "y", true) - zero) / scale;
    const c = u.ctx, y = (value) => zero + value * slope, t0 = Math.max(toT(view[0]), from), t1 = Math.min(toT(view[1]), to);
    let i = Math.max(0, after(t, t0) - 1);
    const end = after(t, t1);
    if (!t.length || i >= end || t1 < t0) return;
    const X = across(u);
    // Where it changes every second pixel: that takes many times as long as bars, and dashes cannot be seen.
    if (end - i > u.bbox.width / 2) { bars(u, t, v, i, end, y, Math.round(X(Math.max(t[i], t0))), Math.round(X(t1)), colour, filled); return; }
    const line = new Path2D(), base = y(0);
    let x = X(Math.max(t[i], from)), column = Math.round(x), at = x, last = y(v[i]), low = last, high = last;
    const first = x;
    line.moveTo(x, last);
    const finish = () => { if (low !== last || high !== last) { line.lineTo(at, low); line.lineTo(at, high); line.lineTo(at, last); } };
    for (i++; i < end; i++) {
      x = X(t[i]);
      const here = y(v[i]);
      if (Math.round(x) !== column) {
        finish();
        line.lineTo(x, last); line.lineTo(x, here);
        column = Math.round(x); at = x; low = high = here;
      } else { low = Math.min(low, here); high = Math.max(high, here); }
      last = here;
    }
    finish();
    const right = X(t1);
    line.lineTo(right, last);
    if (filled) { const area = new Path2D(line); area.lineTo(right, base); area.lineTo(first, base); area.closePath(); c.globalAlpha = 0.16; c.fillStyle = colour; c.fill(area); c.globalAlpha = 1; }
    if (filled !== "only") { c.strokeStyle = colour; c.lineWidth = 1.6 * ratio(); c.setLineDash(dash.map((d) => d * 1.6 * ratio())); c.lineJoin = "round"; c.stroke(line); c.setLineDash([]); }
  }
  // Of a line that goes up and down in most columns of pixels: a bar in each, from its least to its greatest value there.
  function bars(u, t, v, i, end, y, from, to, colour, filled) {
    const { left, top, width, height } = u.bbox, out = pixels(u, "bars", width, height), { cells } = out, half = 0.8 * ratio(), per = (view[1] - view[0]) / width;
    const line = filled === "only" ? 0 : cell(colour), area = filled ? cell(colour, 0.16) : 0, base = Math.min(height, Math.round(y(0) - top));
    let value = v[i];
    for (let x = Math.max(0, from - left), right = Math.min(width, to - left); x < right; x++) {
      const until = toT(view[0] + (x + 1) * per);
      let low = value, high = value;
      for (; i < end && t[i] < until; i++) { value = v[i]; if (!(low <= value)) low = value; if (!(high >= value)) high = value; }
      if (high !== high) continue;
      const first = Math.max(0, Math.round(y(high) - half - top)), last = line ? Math.min(height, Math.round(y(low) + half - top)) : first;
      for (let row = first; row < last; row++) cells[row * width + x] = line;
      if (area) for (let row = last; row < base; row++) cells[row * width + x] = area;
    }
    u.ctx.drawImage(out.done(), left, top);
  }
  // Calls for each column of pixels in which there are any of these times; of many in one column few are looked at.
  function eachColumn(times, t0, t1, X, draw) {
    const end = after(times, t1);
    for (let i = after(times, t0 - 1); i < end; i++) {
      const x = Math.floor(X(times[i]));
      draw(x);
      let step = 1;
      for (; i + step < end && X(times[i + step]) < x + 1; step *= 2) i += step;
      for (step >>= 1; step; step >>= 1) if (i + step < end && X(times[i + step]) < x + 1) i += step;
    }
  }
  // What is drawn often is drawn once and copied.
  const SHAPES = {
    cross(c, r, k) {
      c.moveTo(-r, -r); c.lineTo(r, r); c.moveTo(r, -r); c.lineTo(-r, r);
      c.strokeStyle = ink.paper; c.lineWidth = 4.2 * k; c.stroke(); c.strokeStyle = ink.drop; c.lineWidth = 1.9 * k; c.stroke();
    },
    fast(c, r, k) { c.moveTo(0, -r); c.lineTo(r, r); c.lineTo(-r, r); c.closePath(); c.fillStyle = ink.fast; c.strokeStyle = ink.paper; c.lineWidth = k; c.stroke(); c.fill(); },
    timer(c, r, k) { c.moveTo(0, -r); c.lineTo(r, 0); c.lineTo(0, r); c.lineTo(-r, 0); c.closePath(); c.fillStyle = ink.ink; c.strokeStyle = ink.paper; c.lineWidth = k; c.stroke(); c.fill(); },
    probe(c, r, k) { c.arc(0, 0, r * 0.8, 0, 7); c.fillStyle = ink.ink; c.strokeStyle = ink.paper; c.lineWidth = k; c.stroke(); c.fill(); },
  };
  function stamp(shape, r) {
    const key = shape + r;
    if (!stamps.has(key)) {
      const half = Math.ceil(r + 2.2 * ratio()), size = 2 * half, tile = Object.assign(document.createElement("canvas"), { width: size, height: size }), on = tile.getContext("2d", { willReadFrequently: true });
      on.translate(half, half); on.beginPath(); SHAPES[shape](on, r, ratio());
      const seen = [...new Uint32Array(on.getImageData(0, 0, size, size).data.buffer)].map((one, i) => [i % size, Math.floor(i / size), one]).filter(([, , one]) => one);
      stamps.set(key, { tile, half, size, seen, values: Uint32Array.from(seen, ([, , one]) => one), places: new Map() });
    }
    return stamps.get(key);
  }
  // A picture whose pixels are set one by one: for thousands of small marks a canvas takes twenty times as long.
  function Pixels(wide, high) {
    const image = Object.assign(document.createElement("canvas"), { width: wide, height: high }), c = image.getContext("2d"), data = c.createImageData(wide, high);
    const cells = new Uint32Array(data.data.buffer);
    return {
      image, wide, high, cells,
      done() { c.putImageData(data, 0, 0); return image; },
      copy({ half, size, seen, values, places }, x, y) {
        const left = Math.round(x) - half, top = Math.round(y) - half, whole = left >= 0 && left + size <= wide && top >= 0 && top + size <= high;
        if (!places.has(wide)) places.set(wide, Int32Array.from(seen, ([column, row]) => row * wide + column));
        const place = places.get(wide), start = top * wide + left;
        for (let i = 0; i < values.length; i++) {
          if (!whole && !(left + seen[i][0] >= 0 && left + seen[i][0] < wide && top + seen[i][1] >= 0 && top + seen[i][1] < high)) continue;
          // The last of the four bytes says how little shows through: what is hardly there replaces nothing.
          const to = start + place[i], one = values[i];
          if (one >>> 24 >= 128 || one >>> 24 >= cells[to] >>> 24) cells[to] = one;
        }
      },
    };
  }
  // The one of the last time, if it is as large, and empty.
  function pixels(u, name, wide, high) {
    if (u[name]?.wide !== wide || u[name].high !== high) u[name] = Pixels(wide, high); else u[name].cells.fill(0);
    return u[name];
  }
  const parts = (hex) => (hex.length < 7 ? hex.replace(/\w/g, "$&$&") : hex).match(/\w\w/g).map((part) => parseInt(part, 16));
  const cell = (hex, alpha = 1) => new Uint32Array(new Uint8Array([...parts(hex), 255 * alpha]).buffer)[0];
  const blend = (front, back, alpha) => "#" + parts(front).map((part, i) => Math.round(part * alpha + parts(back)[i] * (1 - alpha)).toString(16).padStart(2, "0")).join("");
  // Marks of one kind, not one upon the other.
  function mark(to, shape, times, t0, t1, X, y, size) {
    const one = stamp(shape, size);
    let last = -99;
    for (let i = after(times, t0 - 1), end = after(times, t1); i < end; i++) {
      const x = X(times[i]);
      if (x - last >= size) { to.copy(one, x, y); last = x; }
    }
  }
  // Where they would hide all else they are lines: in each column of pixels that has any.
  const isCrowded = (times, t0, t1, wide, size) => (after(times, t1) - after(times, t0 - 1)) * 5 * size > wide;
  function level(u, value, dash) { const c = u.ctx, y = u.valToPos(value, "y", true); c.strokeStyle = ink.muted; c.lineWidth = ratio(); c.setLineDash(dash.map((d) => d * ratio())); c.beginPath(); c.moveTo(u.bbox.left, y); c.lineTo(u.bbox.left + u.bbox.width, y); c.stroke(); c.setLineDash([]); }
  function paintQueue(u) {
    const c = clip(u), k = ratio();
    shown().forEach((run) => steps(u, run.queue.t, run.queue[unit.key], unit.scale, own(run), run.dash, true, run.begin, run.end));
    new Set(shown().map((run) => run[unit.limit]).filter((limit) => limit != null)).forEach((limit) => level(u, limit / unit.scale, [6, 4]));
    shown().forEach((run, i) => {
      const y = u.bbox.top + (7 + 10 * i) * k, X = across(u), t0 = toT(view[0]), t1 = toT(view[1]);
      c.fillStyle = ink.drop;
      if (isCrowded(run.drops, t0, t1, u.bbox.width, 3 * k)) eachColumn(run.drops, t0, t1, X, (x) => c.fillRect(x, y - 3 * k, 1, 6 * k));
      else {
        const { tile, half } = stamp("cross", 3 * k);
        eachColumn(run.drops, t0, t1, X, (x) => c.drawImage(tile, Math.round(x - half), Math.round(y - half)));
      }
      c.fillStyle = own(run);
      eachColumn(run.marks, t0, t1, X, (x) => c.fillRect(x, u.bbox.top + u.bbox.height - (3 + 4 * i) * k, k, 3 * k));
    });
    gaps(u); c.restore();
  }
  // The whole run is divided into columns. For each, the number of columns up to it in which a lane has packets, or marks of a kind:
  // whether a part of the view has any follows from two of these numbers.
  const COLUMNS = 8192;
  function columns(lane) {
    if (lane.columns) return lane.columns;
    const column = (at) => (toX(at) / total) * COLUMNS;
    const summed = (times, ends = times) => {
      const out = new Uint16Array(COLUMNS + 1);
      for (let i = 0; i < times.length; i++) {
        const from = Math.max(0, Math.min(COLUMNS - 1, Math.floor(column(times[i])))), to = Math.min(COLUMNS, Math.max(from + 1, Math.ceil(column(ends[i]))));
        out.fill(1, from + 1, to + 1);
      }
      for (let i = 1; i <= COLUMNS; i++) out[i] += out[i - 1];
      return out;
    };
    return lane.columns = { packets: summed(lane.pk?.a ?? [], lane.pk?.e ?? []), ...Object.fromEntries(KINDS.map(({ times }) => [times, summed(lane[times] ?? [])])) };
  }
  // Marks of rows: their shape; where they are crowded, above or below packets. The last ones are on top.
  const KINDS = [
    { times: "repaired", shape: "fast", size: 1, colour: "fast", above: true },
    { times: "dropped", shape: "cross", size: 0.75, colour: "drop", above: false },
    { times: "probed", shape: "probe", size: 1, colour: "ink", above: true },
    { times: "expired", shape: "timer", size: 1, colour: "ink", above: true },
  ];
  // Draws rows into a picture of pixels; from far away all of a row, else its marks.
  function pixelRows(u, run, out, t0, t1, h) {
    const X = across(u, 0), { wide, cells } = out, k = ratio(), line = new Uint32Array(wide), fill = cell(ink.waitfill), edge = cell(ink.wait), dots = KINDS.map(({ colour }) => cell(ink[colour]));
    const packet = cell(own(run), PACKETS), onWait = cell(blend(own(run), ink.waitfill, PACKETS)), big = Math.max(3.5 * k, Math.min(h * 0.42, 6 * k));
    const per = (view[1] - view[0]) / wide, far = per >= total / COLUMNS;
    const edges = far && Int32Array.from({ length: wide + 1 }, (_, x) => Math.min(COLUMNS, Math.round(((view[0] + x * per) / total) * COLUMNS)));
    const least = Math.ceil(k), hatched = cell(blend(ink.wait, ink.waitfill, 0.8));
    // The rows of pixels between two heights, one at least.
    const span = (from, to) => { const first = Math.max(0, Math.round(from)); return [first, Math.min(out.high, Math.max(first + 1, Math.round(to)))]; };
    // Waits of the row that are wide enough for a frame.
    let long = [];
    return {
      waits(lane, y) {
        const [top, bottom] = span(y - h * 0.36, y + h * 0.36);
        let any = false;
        line.fill(0);
        long = [];
        eachWait(lane, t0, t1, (wait) => {
          const x0 = Math.round(X(wait[0])), x1 = Math.max(x0 + least, Math.round(X(wait[1])));
          if (wait[3] || wait[0] === wait[1] || x0 >= wide || x1 <= 0) return;
          const from = Math.max(0, x0), to = Math.min(wide, x1);
          line.fill(fill, from, to);
          if (x0 >= 0) line[x0] = edge;
          if (x1 <= wide) line[x1 - 1] = edge;
          if (x1 - x0 >= 10 * k) long.push([from, to]);
          any = true;
        });
        if (any) for (let row = top; row < bottom; row++) cells.set(line, row * wide);
      },
      // After the waits of the same row.
      packets(lane, y) {
        const draw = (x) => { line[x] = line[x] ? onWait : packet; };
        if (far) {
          const sums = columns(lane).packets;
          for (let x = 0; x < wide; x++) if (sums[edges[x + 1]] !== sums[edges[x]]) draw(x);
        } else {
          const { a, e } = lane.pk, end = after(a, t1);
          for (let i = inView(lane, t0), done = 0; i < end; i++) {
            const to = Math.min(wide, X(e[i]));
            if (to < done) continue;
            const from = Math.max(done, Math.floor(X(a[i])));
            done = Math.min(wide, Math.max(from + Math.ceil(k), Math.ceil(to)));
            for (let x = from; x < done; x++) draw(x);
          }
        }
        const [top, bottom] = span(y - h * 0.3, y + h * 0.3);
        for (let row = top; row < bottom; row++) cells.set(line, row * wide);
      },
      // Where no packets are upon them.
      frames(y) {
        const [top, bottom] = span(y - h * 0.36, y + h * 0.36), framed = h > 5 * k, pitch = Math.round(8 * k);
        const draw = (at, colour) => { if (cells[at] === fill) cells[at] = colour; };
        for (const [from, to] of long) {
          if (framed) for (let x = from; x < to; x++) { draw(top * wide + x, edge); draw((bottom - 1) * wide + x, edge); }
          if (!moving && h > 4 * k) for (let row = top; row < bottom; row++) for (let x = from + (pitch - ((from + row) % pitch)) % pitch; x < to; x += pitch) draw(row * wide + x, hatched);
        }
      },
      marks(lane, y) {
        KINDS.forEach(({ times, shape, size, above }, kind) => {
          const list = lane[times], dot = dots[kind];
          if (!list?.length) return;
          if (!isCrowded(list, t0, t1, wide, big * size)) { mark(out, shape, list, t0, t1, X, y, big * size); return; }
          const [from, to] = above ? span(y - h / 2, y - h * 0.3) : span(y + h * 0.2, y + h / 2);
          const draw = (x) => { if (x >= 0 && x < wide) for (let row = from; row < to; row++) cells[row * wide + x] = dot; };
          if (!far) { eachColumn(list, t0, t1, X, draw); return; }
          const sums = columns(lane)[times];
          for (let x = 0; x < wide; x++) if (sums[edges[x + 1]] !== sums[edges[x]]) draw(x);
        });
      },
    };
  }
  // How little of what is behind them packets let through.
  const PACKETS = 0.78;
  // The first packet of a lane that may be seen: what arrived before the view may still be there.
  function inView(lane, t0) {
    lane.longest ??= lane.pk.a.reduce((most, at, i) => Math.max(most, lane.pk.e[i] - at), 0);
    return after(lane.pk.a, t0 - lane.longest - 1);
  }
  const rows = (run) => order.length + (run.others.flows ? 1 : 0);
  function paintLanes(run) {
    return (u) => {
      const c = clip(u), k = ratio(), n = rows(run), h = u.bbox.height / n, colour = own(run), t0 = toT(view[0]), t1 = toT(view[1]);
      const X = across(u), left = u.bbox.left, right = left + u.bbox.width;
      // Far away: when it has packets at the port. Near: waiting is pale, and each packet on the line is a block.
      const near = h > 4 * k && (run.packet / (view[1] - view[0])) * u.bbox.width > 2.5 * k, upper = u.bbox.top;
      const pattern = near && !moving && c.createPattern(hatch, "repeat"), faint = colour + "66";
      const above = pixels(u, "above", u.bbox.width, u.bbox.height), row = pixelRows(u, run, above, t0, t1, h);
      const wait = (a, b, y, probe) => {
        if (a === b) return;  // since when it ran is not known
        if (!near && !probe) return;  // in the row of pixels
        const x0 = Math.max(left - 9, X(a)), x1 = X(b);
        const box = [x0, y - h * 0.36, Math.max(1, x1 - x0), h * 0.72];
        if (!probe) { c.fillStyle = ink.waitfill; c.fillRect(...box); if (pattern && h > 4 * k) { c.fillStyle = pattern; c.fillRect(...box); } }
        if (h > 5 * k) { c.strokeStyle = ink.wait; c.lineWidth = k; c.setLineDash(probe ? [2 * k, 2 * k] : []); c.strokeRect(...box); c.setLineDash([]); }
      };
      order.forEach((id, number) => {
        const lane = run.lane.get(id), top = u.bbox.top + number * h, y = top + h / 2;
        if (id === selected) { c.fillStyle = ink.soft; c.fillRect(left, top, u.bbox.width, h); c.strokeStyle = ink.ink; c.lineWidth = k; c.strokeRect(left, top + 0.5, u.bbox.width, h - 1); }
        if (!lane || lane.begin > t1 || lane.end < t0) return;
        const begin = Math.round(Math.max(left - 9, X(lane.begin)));
        c.fillStyle = faint; c.fillRect(begin, Math.round(y - k / 2), Math.round(Math.min(right, X(lane.end))) - begin, Math.ceil(k));
        if (near || lane.probed.length) eachWait(lane, t0, t1, ([a, b, , probe]) => wait(a, b, y, probe));
        if (!near) { row.waits(lane, y - upper); row.packets(lane, y - upper); row.frames(y - upper); }
        const { a, e } = lane.pk, segment = lane.pk.k, first = near ? inView(lane, t0) : 0, last = near ? after(a, t1) : 0;
        c.fillStyle = colour;
        let x0 = null, x1 = 0;
        const flush = () => { if (x0 !== null) c.fillRect(x0, y - h * 0.3, Math.max(k, x1 - x0), h * 0.6); };
        c.globalAlpha = 0.35;
        for (let i = first; i < last; i++) {
          const from = X(a[i]), to = X(e[i]);
          if (x0 !== null && from - x1 < 1) x1 = Math.max(x1, to); else { flush(); x0 = from; x1 = to; }
        }
        flush(); c.globalAlpha = 1;
        for (let i = first; i < last; i++) {
          const to = X(e[i]), from = X(Math.max(a[i], e[i] - (lane.pk.n?.[i] > 1 ? Infinity : run.packet)));
          if (to < left || from > right) continue;
          c.fillStyle = colour; c.fillRect(from, y - h * 0.36, Math.max(k, to - from - k), h * 0.72);
          if (h > 10 * k && to - from > 8 * k * String(segment[i]).length + 4 * k) { c.fillStyle = ink.paper; c.font = `${Math.min(11 * k, h * 0.7)}px system-ui, sans-serif`; c.textAlign = "left"; c.textBaseline = "middle"; c.fillText(segment[i], from + 3 * k, y); }
        }
        row.marks(lane, y - upper);
        if (lane.done && lane.end <= t1) { c.fillStyle = ink.ink; c.fillRect(X(lane.end), y - h * 0.42, 2 * k, h * 0.84); }
      });
      if (run.others.flows) {
        const y = u.bbox.top + (order.length + 0.5) * h;
        if (near) eachWait(run.others, t0, t1, ([a, b]) => wait(a, b, y, 0)); else { row.waits(run.others, y - upper); row.frames(y - upper); }
        row.marks(run.others, y - upper);
      }
      c.drawImage(above.done(), left, upper);
      gaps(u); c.restore();
    };
  }
  function paintWindows(u) {
    const c = clip(u);
    for (const run of shown()) {
      const lane = run.lane.get(selected);
      if (!lane) continue;
      steps(u, lane.win.t, lane.win.flight, 1024, own(run), [], "only", lane.begin, lane.end);
      if (lane.win.ssthresh.some((v) => v >= 0)) steps(u, lane.win.t, lane.win.ssthresh.map((v) => (v < 0 ? NaN : v)), 1024, ink.muted, [1, 2], false, lane.begin, lane.end);
      if (lane.win.rwnd.some((v) => v / 1024 <= u.top)) steps(u, lane.win.t, lane.win.rwnd, 1024, ink.muted, [7, 3], false, lane.begin, lane.end);
      steps(u, lane.win.t, lane.win.cwnd, 1024, own(run), run.dash, false, lane.begin, lane.end);
    }
    gaps(u); c.restore();
  }
  function paintGoodput(u) {
    const c = clip(u);
    for (const run of shown()) {
      const { bin, bps, width } = run.goodput, t = [], v = [];
      for (let i = 0; i < bin.length; i++) { if (!i || bin[i] !== bin[i - 1] + 1) { if (i) { t.push((bin[i - 1] + 1) * width); v.push(0); } } t.push(bin[i] * width); v.push(bps[i]); }
      if (bin.length) { t.push((bin[bin.length - 1] + 1) * width); v.push(0); }
      steps(u, t, v, unit.rate, own(run), run.dash, true, run.begin, run.end);
    }
    new Set(shown().map((run) => run.rate)).forEach((rate) => level(u, rate / unit.rate, [6, 4]));
    gaps(u); c.restore();
  }
  function build() {
    while (charts.length) charts.pop().destroy();
    document.querySelectorAll("section.run").forEach((part) => { part.hidden = !runs[part.dataset.run].on; });
    const list = shown(), room = 1 + 0.09 * list.length;
    const full = (unit.top / unit.scale) || Math.max(...list.map((run) => Math.max(run[unit.limit] ?? 0, run.queue[unit.key].reduce((a, b) => Math.max(a, b), 0)))) / unit.scale || 1;
    make("queue", phone() ? 150 : 190, full * room, { y: { label: unit.label } }, paintQueue);
    runs.forEach((run, i) => {
      if (!run.on) return;
      const n = rows(run), row = Math.max(phone() ? 8 : 5, Math.min(15, 560 / n)), every = Math.ceil(11 / row);
      const splits = order.map((_, at) => at + 0.5).filter((_, at) => at % every === 0);
      const u = make("lanes" + i, Math.round(n * row) + 36, n, { scale: { dir: -1 }, run, y: { splits: () => splits, values: () => splits.map((at) => order[Math.floor(at)]), label: unit.flow, grid: { show: false }, space: 1 } }, paintLanes(run));
      u.run = run;
    });
    const top = windowsTop(), known = list.some((run) => run.lanes.some((lane) => lane.win.t.length));
    if (known) make("windows", 150, top, { y: { label: "KiB" } }, paintWindows).top = top;
    $("windows").hidden = !known;
    $("windows_key").textContent = "(" + (known ? windowsKey(top).join("; ") : words.unknown) + ")";
    make("goodput", phone() ? 140 : 160, Math.max(...list.map((run) => Math.max(run.rate, ...run.goodput.bps))) / unit.rate * 1.05, { y: { label: unit.rateLabel } }, paintGoodput);
    $("windows_title").textContent = fill(words.windows, selected);
  }
  const most = (values) => values.reduce((a, b) => Math.max(a, b), 0), least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
  // A receive window that is not far above what the sender has is in the picture.
  const windowsTop = () => 1.08 * Math.max(1, ...shown().map((run) => { const lane = run.lane.get(selected); if (!lane) return 0; const own = Math.max(most(lane.win.cwnd), most(lane.win.flight)), seen = lane.win.rwnd.filter((v) => v <= 1.5 * own); return Math.max(own, most(seen)) / 1024; }));
  function windowsKey(top) {
    const having = shown().filter((run) => run.lane.get(selected)?.win.t.length), wins = having.map((run) => run.lane.get(selected).win), said = [words.windowsLine];
    if (wins.some((win) => win.ssthresh.some((v) => v >= 0 && v / 1024 <= top))) said.push(words.windowsThreshold);
    if (!having.length) return [words.unknown];
    const low = wins.map((win) => least(win.rwnd) / 1024);
    if (low.some((one) => one <= top)) said.push(words.windowsReceiver);
    low.forEach((one, i) => { if (one > top) said.push((wins.length > 1 ? having[i].label + ": " : "") + fill(words.windowsReceiverAbove, size(one))); });
    return said;
  }

  // ---- view
  function go(a, b) {
    const width = Math.max(Math.min(2000, total), Math.min(total, b - a));
    a = Math.max(0, Math.min(total - width, a));
    view = [a, a + width];
    moving = true; clearTimeout(calm);
    calm = setTimeout(() => { moving = false; paint(); if (pointed) tell(...pointed); }, 160);
    paint();
  }
  function paint() {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => { look(); for (const u of charts) u.setScale("x", { min: view[0], max: view[1] }); overview(); });
  }
  const redraw = () => { for (const u of charts) u.redraw(false, false); };
  const zoom = (factor, x = cursorAt !== null && toX(cursorAt) >= view[0] && toX(cursorAt) <= view[1] ? toX(cursorAt) : (view[0] + view[1]) / 2) => { const width = (view[1] - view[0]) * factor, part = (x - view[0]) / (view[1] - view[0]); go(x - part * width, x + (1 - part) * width); };
  const pan = (part) => { const by = (view[1] - view[0]) * part; go(view[0] + by, view[1] + by); };
  function show(a, b, margin = 0.4) { const x0 = toX(a), x1 = toX(b), m = Math.max((x1 - x0) * margin, total / 300); go(x0 - m, x1 + m); }
  let strip = null;
  function overview(anew = false) {
    const el = $("overview"), k = ratio(), c = el.getContext("2d");
    if (anew || !strip) { el.width = el.clientWidth * k; el.height = 44 * k; }
    const w = el.width, h = el.height, X = (t) => ((t - toT(0)) / (toT(total) - toT(0) || 1)) * w;
    if (anew || !strip) strip = queues(w, h, k, X);
    c.drawImage(strip, 0, 0);
    const a = X(toT(view[0])), b = X(toT(view[1]));
    c.strokeStyle = ink.ink; c.lineWidth = 2 * k; c.strokeRect(a + k, k, Math.max(3 * k, b - a - 2 * k), h - 2 * k);
  }
  function queues(w, h, k, X) {
    const el = Object.assign(document.createElement("canvas"), { width: w, height: h }), c = el.getContext("2d");
    c.fillStyle = ink.soft; c.fillRect(0, 0, w, h);
    const most = Math.max(1, ...shown().map((run) => run.queue[unit.key].reduce((a, b) => Math.max(a, b), 0)));
    for (const run of shown()) {
      const column = new Float32Array(Math.ceil(w) + 1);
      run.queue.t.forEach((t, i) => { const x = Math.max(0, Math.min(column.length - 1, Math.round(X(t)))); column[x] = Math.max(column[x], run.queue[unit.key][i]); });
      c.fillStyle = own(run); c.globalAlpha = 0.7;
      column.forEach((v, x) => { if (v) c.fillRect(x, h - (v / most) * h * 0.9, Math.max(1, k), (v / most) * h * 0.9); });
      c.globalAlpha = 1;
    }
    return el;
  }
  {
    let held = false;
    const to = (e) => { const box = $("overview").getBoundingClientRect(), t = toT(0) + ((e.clientX - box.left) / box.width) * (toT(total) - toT(0)), w = view[1] - view[0], x = toX(t); go(x - w / 2, x + w / 2); };
    $("overview").addEventListener("pointerdown", (e) => { held = true; $("overview").setPointerCapture(e.pointerId); to(e); });
    $("overview").addEventListener("pointermove", (e) => held && to(e));
    for (const end of ["pointerup", "pointercancel"]) $("overview").addEventListener(end, () => { held = false; });
  }
  function pointer(u) {
    const over = u.over, held = new Map();
    let moved = 0, start = null;
    const x = (e) => view[0] + ((e.clientX - over.getBoundingClientRect().left) / over.clientWidth) * (view[1] - view[0]);
    over.addEventListener("wheel", (e) => {
      if (!e.ctrlKey && !$("stage").contains(document.activeElement)) return;
      e.preventDefault();
      if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan(e.deltaX / 600); else zoom(Math.exp(e.deltaY / 400), x(e));
    }, { passive: false });
    over.addEventListener("pointerdown", (e) => { held.set(e.pointerId, e); moved = 0; start = { view: [...view], held: new Map(held) }; over.setPointerCapture(e.pointerId); });
    over.addEventListener("pointermove", (e) => {
      if (u.run) { pointed = [u, e]; telling ||= requestAnimationFrame(() => { telling = 0; if (pointed) tell(...pointed); }); }
      if (!held.has(e.pointerId) || !start) return;
      held.set(e.pointerId, e);
      const ids = [...held.keys()], per = (start.view[1] - start.view[0]) / over.clientWidth, then = (i) => start.held.get(ids[i]).clientX, now = (i) => held.get(ids[i]).clientX;
      moved = Math.max(moved, Math.abs(now(0) - then(0)));
      if (ids.length === 1 && moved > 4) { const by = (then(0) - now(0)) * per; go(start.view[0] + by, start.view[1] + by); }
      if (ids.length >= 2 && start.held.size >= 2) {
        const left = over.getBoundingClientRect().left, wide = Math.max(8, Math.abs(then(0) - then(1))), factor = wide / Math.max(8, Math.abs(now(0) - now(1)));
        const centre = start.view[0] + ((then(0) + then(1)) / 2 - left) * per, width = (start.view[1] - start.view[0]) * factor, part = ((now(0) + now(1)) / 2 - left) / over.clientWidth;
        moved = 9; go(centre - part * width, centre + (1 - part) * width);
      }
    });
    for (const end of ["pointerup", "pointercancel"]) over.addEventListener(end, (e) => {
      const tapped = held.size === 1 && moved <= 4 && end === "pointerup";
      held.delete(e.pointerId); start = held.size ? { view: [...view], held: new Map(held) } : null;
      if (tapped) { $("stage").focus({ preventScroll: true }); if (u.run) { const id = order[rowAt(u, e)]; if (id !== undefined) choose(id); } }
    });
    over.addEventListener("pointerleave", () => { pointed = null; $("tip").hidden = true; });
  }
  // Where the pointer is over rows; what is there is told once per picture.
  let pointed = null, telling = 0;
  const rowAt = (u, e) => { const box = u.over.getBoundingClientRect(); return Math.floor(((e.clientY - box.top) / box.height) * rows(u.run)); };

  // ---- what is at the cursor
  function onCursor(u) {
    if (u.cursor.left == null || u.cursor.left < 0) return;
    cursorAt = toT(view[0] + (u.cursor.left / widthOf(u)) * (view[1] - view[0]));
    // All charts tell of it. Numbers that run by are written twenty times a second: each time the table is laid out anew.
    const read = () => { reading = 0; readout(cursorAt); };
    reading ||= moving ? setTimeout(read, 50) : requestAnimationFrame(read);
  }
  let reading = 0;
  function readout(t) {
    const body = $("readout").querySelector("tbody"), list = shown();
    while (body.rows.length > list.length) body.lastChild.remove();
    list.forEach((run, number) => {
      const i = after(run.queue.t, t) - 1;
      let under = 0, waiting = 0, done = 0;
      for (const lane of run.lanes) { if (lane.done && t >= lane.end) done++; else if (t >= lane.begin && t <= lane.end) { if (waitsIn(lane, t, t).some(([, end]) => t < end)) waiting++; else under++; } }
      const bin = Math.floor(t / run.goodput.width), g = after(run.goodput.bin, bin) - 1;
      const cells = [run.label, ms(t), i < 0 ? "0" : (run.queue[unit.key][i] / unit.scale).toFixed(unit.digits) + " " + unit.label, under, run.timed ? waiting : words.unknown, done, run.packets ? bits(run.goodput.bin[g] === bin ? run.goodput.bps[g] : 0) : words.unknown];
      const tr = body.rows[number] ?? row(body, cells.length);
      tr.cells[0].style.color = own(run);
      // What stays is left alone: a browser would lay it out anew.
      cells.forEach((said, at) => { const cell = tr.cells[at]; if (cell.textContent !== String(said)) cell.textContent = said; });
    });
  }
  function row(body, columns) {
    const tr = body.insertRow();
    for (let at = 0; at < columns; at++) { const cell = document.createElement(at ? "td" : "th"); if (!at) cell.scope = "row"; tr.append(cell); }
    return tr;
  }
  function tell(u, e) {
    const tip = $("tip"), run = u.run;
    // While what is shown moves, a hint would be out of date before it is read.
    if (moving) { tip.hidden = true; return; }
    const room = document.documentElement.clientWidth, box = u.over.getBoundingClientRect(), id = order[rowAt(u, e)], lane = run.lane.get(id);
    if (!lane) { tip.hidden = true; return; }
    const per = (view[1] - view[0]) / box.width, t = toT(view[0] + (e.clientX - box.left) * per), near = per * 5, said = [];
    // A few one by one, more as their sum.
    const around = (times, one, sum) => {
      const from = after(times, t - near), to = after(times, t + near);
      if (to - from > FEW) said.push(fill(sum, (to - from).toLocaleString("en"), ms(times[from]), ms(times[to - 1])));
      else for (let i = from; i < to; i++) said.push(one(i));
    };
    around(lane.dropped, (i) => fill(words.drop, lost(run, lane.drops[i][1]), ms(lane.dropped[i])), words.drops);
    around(lane.repaired, (i) => fill(words.fast, lost(run, lane.fast[i][1]), ms(lane.repaired[i])), words.fasts);
    const waits = waitsIn(lane, t - near, t).filter(([, end]) => t <= end + near);
    if (waits.length > FEW) said.push(fill(words.waits, waits.length.toLocaleString("en"), ms(waits[0][1]), ms(waits[waits.length - 1][1])));
    else for (const [a, b, segment, probe] of waits) said.push(fill(a < b ? (probe ? words.waitProbe : words.waitTimer) : probe ? words.ranProbe : words.ranTimer, ms(b), lost(run, segment)));
    const { a, e: gone, k, n } = lane.pk, seen = [];
    for (let i = inView(lane, t - near), end = after(a, t); i < end; i++) if (gone[i] >= t - near) seen.push(i);
    const last = seen[seen.length - 1], packets = seen.reduce((sum, i) => sum + (n?.[i] ?? 1), 0);
    if (packets > 1) said.push(fill(words.block, packets.toLocaleString("en"), ms(a[seen[0]]), ms(seen.reduce((most, i) => Math.max(most, gone[i]), 0))));
    else if (packets) said.push(fill(words.packet, k[last].toLocaleString("en"), ms(a[last]), lasting(gone[last] - a[last])));
    if (lane.done && t >= lane.end) said.push(fill(words.done, ms(lane.end)));
    if (t < lane.begin) said.push(words.notYet);
    if (!said.length) said.push(run.packets ? words.open : words.under);
    const head = document.createElement("b");
    head.textContent = `${run.label}, ${fill(words.flow, id)}`; head.style.color = own(run);
    tip.replaceChildren(head, ...said.map((line) => Object.assign(document.createElement("div"), { textContent: line })));
    tip.hidden = false;
    // On the side where there is more room; how wide it is would have to be laid out first.
    const isLeft = e.pageX > room / 2;
    tip.style.left = isLeft ? "auto" : e.pageX + 14 + "px";
    tip.style.right = isLeft ? room - e.pageX + 10 + "px" : "auto";
    tip.style.top = e.pageY + 16 + "px";
  }

  const FEW = 3;

  // ---- one flow
  function choose(id) {
    selected = id;
    explain();
    build();
  }
  function explain() {
    const parts = [Object.assign(document.createElement("h3"), { textContent: fill(words.flow, selected).replace(/^./, (c) => c.toUpperCase()) })];
    for (const run of shown()) {
      const head = document.createElement("h3"), body = document.createElement("div");
      head.textContent = run.label; head.style.color = own(run);
      // From Python, which has escaped it.
      if (run.why[selected]) body.innerHTML = run.why[selected]; else body.textContent = words.none;
      parts.push(head, body);
    }
    $("why").replaceChildren(...parts);
  }
  $("why").addEventListener("click", (e) => { const b = e.target.closest("[data-a]"); if (b) { show(+b.dataset.a, +b.dataset.b); point(+b.dataset.a); } });

  // ---- keys and buttons
  let placing = 0;
  function point(t) {
    cursorAt = t;
    const x = toX(t);
    if (x < view[0] || x > view[1]) { const w = view[1] - view[0]; go(x - w / 2, x + w / 2); }
    // Charts that were built just now have no width before the next picture.
    cancelAnimationFrame(placing);
    placing = requestAnimationFrame(() => { for (const u of charts) u.setCursor({ left: ((x - view[0]) / (view[1] - view[0])) * widthOf(u), top: 5 }, false); cursorAt = t; });
    readout(t);
  }
  function moments() {
    const found = new Set();
    for (const run of shown()) { const lane = run.lane.get(selected); if (lane) for (const t of [lane.begin, lane.end, ...lane.drops.map((d) => d[0]), ...lane.fast.map((d) => d[0]), ...lane.waits.flatMap((w) => [w[0], w[1]])]) found.add(t); }
    return [...found].sort((a, b) => a - b);
  }
  let playing = 0;
  function play() {
    const button = document.querySelector("[data-do=play]"), stop = () => { cancelAnimationFrame(playing); playing = 0; button.textContent = words.play; };
    if (playing) return stop();
    button.textContent = words.pause;
    const [a, b] = view, from = performance.now();
    const tick = (now) => { const x = a + ((now - from) / 12000) * (b - a); if (x >= b) return stop(); point(toT(x)); playing = requestAnimationFrame(tick); };
    playing = requestAnimationFrame(tick);
  }
  const busyEnd = () => { const f = folds.find((one) => one.gap); return f ? f.t0 : toT(total); };
  const does = {
    all: () => go(0, total), in: () => zoom(0.6), out: () => zoom(1 / 0.6), play,
    burst: () => show(toT(0), Math.min(busyEnd(), toT(0) + (busyEnd() - toT(0)) * 0.5), 0.01),
    packets: () => {
      // Also one of a flow that has no row.
      const at = Math.min(...shown().filter((run) => run.drops.length).map((run) => run.drops[0])), w = total / 60;
      if (at === Infinity) return;
      const own = shown().flatMap((run) => run.lanes).find((lane) => lane.dropped[0] === at);
      if (own) choose(own.id);
      go(toX(at) - w, toX(at) + w); point(at);
    },
    wait: () => { let most = null; for (const run of shown()) for (const lane of run.lanes) for (const w of lane.waits) if (!most || w[1] - w[0] > most[0][1] - most[0][0]) most = [w, lane.id]; if (most) { choose(most[1]); show(most[0][0], most[0][1], 0.25); point(most[0][0]); } },
  };
  document.querySelector(".tools").addEventListener("click", (e) => { const b = e.target.closest("[data-do]"); if (b) does[b.dataset.do](); });
  $("fold").addEventListener("change", () => { const [a, b] = [toT(view[0]), toT(view[1])], whole = view[1] - view[0] >= total * 0.999; refold(); view = whole ? [0, total] : [toX(a), toX(b)]; build(); paint(); });
  $("stage").addEventListener("keydown", (e) => {
    if (e.target.closest("details, table, button") || e.ctrlKey || e.metaKey || e.altKey) return;
    const at = order.indexOf(selected);
    const keys = {
      ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), "+": does.in, "=": does.in, "-": does.out, "0": does.all, Home: does.all, " ": play,
      ArrowUp: () => choose(order[Math.max(0, at - 1)]), ArrowDown: () => choose(order[Math.min(order.length - 1, at + 1)]),
      n: () => { const next = moments().find((t) => t > (cursorAt ?? -1) + 1); if (next !== undefined) point(next); },
      p: () => { const last = moments().filter((t) => t < (cursorAt ?? Infinity) - 1).pop(); if (last !== undefined) point(last); },
    };
    const act = keys[e.key.length === 1 ? e.key.toLowerCase() : e.key];
    if (act) { e.preventDefault(); act(); }
  });
  document.querySelector(".cards").addEventListener("click", (e) => {
    const b = e.target.closest("[data-run]");
    if (!b) return;
    const run = runs[b.dataset.run];
    if (run.on && shown().length === 1) return;
    run.on = !run.on;
    b.setAttribute("aria-pressed", run.on);
    refold(); view = [0, total]; build(); explain(); readout(cursorAt ?? toT(0)); overview(true);
  });

  // ---- begin
  const again = () => { theme(); build(); explain(); readout(cursorAt ?? toT(0)); overview(true); };
  theme(); refold(); view = [0, total]; again();
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; again(); } });
  night.addEventListener("change", again);
  addEventListener("beforeprint", () => { printing = true; again(); });
  addEventListener("afterprint", () => { printing = false; again(); });
  window.incastReport = { doc, go, show, choose, point, does, charts, toX, toT, get view() { return view; }, get total() { return total; }, get selected() { return selected; }, get folds() { return folds; } };
  document.documentElement.dataset.ready = "true";
})();
