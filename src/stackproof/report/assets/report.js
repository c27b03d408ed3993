// Draws the report's curves. Data: #chart-data. Colours: the custom properties of report.css.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("chart-data").textContent);
  const hidden = new Set();
  const references = new Set(data.overlay);
  // On paper two figures stand side by side: half of what A4 and Letter leave, in pixels.
  const PRINTED = [318, 262];
  let printing = false;
  const drawn = new Map();
  const DASHES = ["solid", "dash", "dashdot", "longdash", "dot", "longdashdot"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "star"];
  // The same symbols in the legend, around the middle of a swatch.
  const MARKS = {
    circle: "M13.5 6a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0", square: "M14 3h6v6h-6z", diamond: "M17 1.6l4.4 4.4l-4.4 4.4l-4.4-4.4z",
    "triangle-up": "M17 1.8l4.2 7.6h-8.4z", cross: "M15.6 2h2.8v2.6h2.6v2.8h-2.6v2.6h-2.8v-2.6h-2.6v-2.8h2.6z",
    star: "M17 1l1.5 3.4l3.7.3l-2.8 2.5l.9 3.6l-3.3-1.9l-3.3 1.9l.9-3.6l-2.8-2.5l3.7-.3z",
  };
  MARKS["circle-open"] = MARKS.circle;
  const VERDICT_SYMBOLS = { PASS: "circle", FAIL: "x", INCONCLUSIVE: "circle-open", SLOWER: "triangle-down-open" };
  const RATIO_TICKS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100];
  const CONFIG = {
    displaylogo: false,
    responsive: true,
    scrollZoom: false,
    // Named one by one: the library's own choice has a button that sends data to a server.
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  };

  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const armOf = (name) => data.arms.find((arm) => arm.name === name);
  const sizeText = (size) => {
    for (const [step, unit] of [[1 << 30, "GiB"], [1 << 20, "MiB"], [1 << 10, "KiB"]]) {
      if (size >= step) return `${Number((size / step).toPrecision(4))} ${unit}`;
    }
    return `${size} B`;
  };
  const number = (value) => Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 });
  // 0 bytes have no place on a logarithmic axis; they stand half a step left of 1 byte.
  const place = (size) => (size === 0 ? 0.5 : size);
  const named = (arm, path) => clean(data.byPath && path ? `${arm} (${path})` : arm);
  const clean = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function styleOf(name) {
    const { role, style } = armOf(name);
    if (role === "baseline") {
      return { colour: colour("baseline"), dash: "solid", symbol: "circle", width: 2.6 };
    }
    if (role === "null") {
      return { colour: colour("null"), dash: "dot", symbol: "circle-open", width: 1.5 };
    }
    return {
      colour: colour(`series-${style % 6}`),
      dash: DASHES[style % DASHES.length],
      symbol: SYMBOLS[style % SYMBOLS.length],
      width: 1.8,
    };
  }

  const faded = (hex, alpha) => {
    const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${parts.join(",")},${alpha})`;
  };

  // Bands of many arms lie over each other: the more there are, the fainter.
  const bandOf = (count, most) => most * Math.min(1, 3 / count);

  // Where a band or an interval goes on beyond the axis a triangle at its edge says so.
  function edgeMarks(arm, style, points, range, yaxis) {
    const [low, high] = range.map((power) => 10 ** power);
    const inside = 0.012 * (range[1] - range[0]);
    const beyond = [
      ...points.filter((p) => p.high > high).map((p) => ({ ...p, y: 10 ** (range[1] - inside), symbol: "triangle-up" })),
      ...points.filter((p) => p.low < low).map((p) => ({ ...p, y: 10 ** (range[0] + inside), symbol: "triangle-down" })),
    ];
    return beyond.length === 0 ? [] : [{
      x: beyond.map((p) => p.x), y: beyond.map((p) => p.y), yaxis,
      type: "scatter", mode: "markers", meta: arm, name: clean(arm), edge: true,
      marker: { color: style.colour, size: 7, symbol: beyond.map((p) => p.symbol) },
      customdata: beyond.map((p) => `goes on: ${number(p.low)} to ${number(p.high)}`), hovertemplate: "%{customdata}",
    }];
  }

  function curveTraces(panel) {
    const bands = [];
    const lines = [];
    const edges = [];
    const { range } = valueAxis(panel);
    for (const { arm, path, points } of panel.arms) {
      const style = styleOf(arm);
      const x = points.map((point) => place(point[0]));
      bands.push({
        x: [...x, ...[...x].reverse()],
        y: [...points.map((p) => p[3]), ...points.map((p) => p[2]).reverse()],
        type: "scatter", mode: "lines", fill: "toself", hoverinfo: "skip", meta: arm,
        fillcolor: faded(style.colour, bandOf(panel.arms.length, 0.16)), line: { width: 0 },
      });
      const around = points.map((p, at) => ({ x: x[at], low: p[2], high: p[3] }));
      edges.push(...edgeMarks(arm, style, around, range, "y"));
      lines.push({
        x, y: points.map((point) => point[1]),
        type: "scatter", mode: "lines+markers", meta: arm, name: named(arm, path),
        line: { color: style.colour, width: style.width, dash: style.dash },
        marker: { color: style.colour, symbol: style.symbol, size: 5.5 },
        customdata: points.map((p) =>
          `${sizeText(p[0])}<br><b>${number(p[1])} ${panel.unit}</b><br>` +
          `${number(p[2])} to ${number(p[3])}` +
          (p[4] === null ? "" : `<br>${number(p[4])} % of limit`)),
        hovertemplate: "%{customdata}",
      });
    }
    const shown = panel.references.filter((one) => references.has(one.id));
    for (const [index, reference] of shown.entries()) {
      const last = reference.points.length - 1;
      lines.push({
        x: reference.points.map((point) => place(point[0])),
        y: reference.points.map((point) => point[1]),
        text: reference.points.map((_, at) => (at === last ? clean(reference.machine) : "")),
        textposition: "top left", textfont: { size: 11, color: colour("soft") }, cliponaxis: false,
        type: "scatter", mode: "lines+text", name: clean(reference.label),
        line: { color: colour("soft"), width: 1.4, dash: DASHES[(index + 3) % DASHES.length] },
        customdata: reference.points.map((p) => `${sizeText(p[0])}<br><b>${number(p[1])} ${panel.unit}</b>`),
        hovertemplate: "%{customdata}",
      });
    }
    return [...bands, ...lines, ...edges];
  }

  const ratioText = (panel, cell) =>
    `${panel.sized ? `${sizeText(cell[0])}<br>` : ""}<b>${cell[1].toFixed(3)}</b> ` +
    `(${cell[2].toFixed(3)} to ${cell[3].toFixed(3)})<br>${cell[5]}`;

  // The null arm on a curve is a grey band: what the baseline differs from itself.
  function nullTraces(panel, arm, cells) {
    const style = styleOf(arm);
    const x = cells.map((cell) => place(cell[0]));
    const common = { type: "scatter", mode: "lines", meta: arm, name: clean(arm), yaxis: "y2" };
    return [
      { ...common, x: [...x, ...[...x].reverse()], y: [...cells.map((c) => c[3]), ...cells.map((c) => c[2]).reverse()],
        fill: "toself", fillcolor: faded(style.colour, 0.3), line: { width: 0 }, hoverinfo: "skip" },
      { ...common, x, y: cells.map((cell) => cell[1]),
        line: { color: style.colour, width: 1, dash: style.dash },
        customdata: cells.map((cell) => ratioText(panel, cell)), hovertemplate: "%{customdata}" },
    ];
  }

  // Of paths the whole interval is a band: which of them part, and from which size on, is the question.
  function bandTraces(panel, arm, cells) {
    const style = styleOf(arm);
    const x = cells.map((cell) => place(cell[0]));
    const path = panel.arms.find((one) => one.arm === arm)?.path;
    const common = { type: "scatter", meta: arm, name: named(arm, path), yaxis: "y2" };
    return [
      { ...common, x, y: cells.map((cell) => cell[1]), mode: "lines+markers",
        line: { color: style.colour, width: 1.4, dash: style.dash },
        marker: { color: style.colour, size: 6, symbol: cells.map((cell) => VERDICT_SYMBOLS[cell[4]]) },
        customdata: cells.map((cell) => ratioText(panel, cell)), hovertemplate: "%{customdata}" },
      { ...common, x: [...x, ...[...x].reverse()], mode: "lines",
        y: [...cells.map((c) => c[3]), ...cells.map((c) => c[2]).reverse()],
        fill: "toself", fillcolor: faded(style.colour, bandOf(panel.ratios.length, 0.18)),
        hoverinfo: "skip", line: { color: faded(style.colour, 0.4), width: 0.7 } },
    ];
  }

  function ratioTraces(panel) {
    const range = ratioRange(panel);
    const edges = panel.sized ? panel.ratios.flatMap(({ arm, cells }) => edgeMarks(
      arm, styleOf(arm),
      cells.filter((c) => c[2] !== null).map((c) => ({ x: place(c[0]), low: c[2], high: c[3] })),
      range, "y2",
    )) : [];
    const beside = panel.ratios.filter(({ arm }) => armOf(arm).role !== "null").map(({ arm }) => arm);
    return panel.ratios.map(({ arm, cells }) => {
      const style = styleOf(arm);
      const known = cells.map((c) => (c[2] === null ? [c[0], c[1], c[1], c[1], c[4], c[5]] : c));
      if (panel.sized && armOf(arm).role === "null") return nullTraces(panel, arm, known);
      if (panel.sized && data.byPath) return bandTraces(panel, arm, known);
      // Side by side, so that the intervals of several arms can be told apart.
      const shift = 2 ** (0.22 * (beside.indexOf(arm) - (beside.length - 1) / 2));
      return [{
        x: known.map((cell) => (panel.sized ? place(cell[0]) * shift : clean(arm))),
        y: known.map((cell) => cell[1]),
        type: "scatter", mode: panel.sized ? "lines+markers" : "markers",
        meta: arm, name: clean(arm), xaxis: panel.sized ? "x" : "x2", yaxis: "y2",
        line: { color: faded(style.colour, 0.6), width: 1, dash: style.dash },
        marker: {
          color: style.colour, size: 6.5,
          symbol: known.map((cell) => VERDICT_SYMBOLS[cell[4]]),
        },
        error_y: {
          type: "data", symmetric: false, color: style.colour, thickness: 1.2, width: 0,
          array: known.map((cell) => cell[3] - cell[1]),
          arrayminus: known.map((cell) => cell[1] - cell[2]),
        },
        customdata: known.map((cell) => ratioText(panel, cell)),
        hovertemplate: "%{customdata}",
      }];
    }).reverse().flat().concat(edges);
  }

  function launchTraces(panel) {
    return panel.arms.map(({ arm, values }) => {
      const style = styleOf(arm);
      const all = values.flat();
      return {
        x: all.map(() => clean(arm)), y: all, type: "scatter", mode: "markers", meta: arm,
        name: clean(arm),
        marker: { color: faded(style.colour, 0.7), symbol: style.symbol, size: 9 },
        hovertemplate: `%{y} ${panel.unit}`,
      };
    });
  }

  // All ratios have room; ends of intervals only so far beyond them that ratios can still be read.
  function ratioRange(panel) {
    const cells = panel.ratios.flatMap((one) => one.cells);
    const middle = cells.map((c) => c[1]);
    const least = Math.min(1 - 1.6 * panel.margin, ...middle.map((v) => v * 0.93));
    const most = Math.max(1 + 1.6 * panel.margin, ...middle.map((v) => v * 1.07));
    const low = Math.max(least / 1.5, Math.min(least, ...cells.map((c) => (c[2] ?? c[1]) * 0.97)));
    const high = Math.min(most * 1.5, Math.max(most, ...cells.map((c) => (c[3] ?? c[1]) * 1.03)));
    return [Math.log10(Math.max(low, 0.005)), Math.log10(Math.min(high, 200))];
  }

  function ratioTicks(range) {
    const inside = RATIO_TICKS.filter((t) => Math.log10(t) >= range[0] && Math.log10(t) <= range[1]);
    // Thin out so that no two labels touch; 1 always stays.
    const gap = (range[1] - range[0]) / 9;
    const kept = [1];
    for (const tick of inside.sort((a, b) => Math.abs(Math.log(a)) - Math.abs(Math.log(b)))) {
      if (kept.every((other) => Math.abs(Math.log10(tick / other)) >= gap)) kept.push(tick);
    }
    return kept;
  }

  function sizeAxis(panel, narrow) {
    const shown = panel.references.filter((one) => references.has(one.id));
    const sizes = [...new Set([
      ...panel.arms.flatMap((arm) => arm.points.map((point) => point[0])),
      ...shown.flatMap((one) => one.points.map((point) => point[0])),
    ])].sort((a, b) => a - b);
    const powers = sizes.filter((size) => size > 0);
    const step = Math.max(1, Math.ceil(powers.length / (narrow ? 6 : 9)));
    const ticks = powers.filter((_, index) => index % step === 0);
    if (sizes.includes(0)) ticks.unshift(0);
    return {
      type: "log", tickvals: ticks.map(place),
      ticktext: ticks.map((size) => sizeText(size).replace(" B", "").replace(" KiB", "K").replace(" MiB", "M")),
      range: [Math.log10(place(sizes[0]) / 1.3), Math.log10(place(sizes[sizes.length - 1]) * 1.3)],
    };
  }

  // Powers of ten, with steps between them where the values span less than two decades.
  function valueAxis(panel) {
    const middle = panel.arms.flatMap((arm) => arm.points.map((point) => point[1])).filter((value) => value > 0);
    // A launch that fell far out must not press the curves of all others together.
    const [least, most] = [Math.min(...middle) / 2, Math.max(...middle) * 2];
    const ends = panel.arms.flatMap((arm) => arm.points.flatMap((point) => [point[2], point[3]]));
    const values = [
      ...ends.map((value) => Math.min(Math.max(value, least), most)),
      ...panel.references.filter((one) => references.has(one.id)).flatMap((one) => one.points.map((p) => p[1])),
      ...(panel.limit === null ? [] : [panel.limit]),
    ].filter((value) => value > 0);
    const range = [Math.log10(Math.min(...values)) - 0.08, Math.log10(Math.max(...values)) + 0.12];
    const decades = range[1] - range[0];
    const steps = decades < 0.6 ? [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8] : decades < 2 ? [1, 2, 5] : [1];
    const ticks = [];
    for (let power = Math.floor(range[0]); power <= range[1]; power += 1) {
      for (const step of steps) ticks.push(Number(`${step}e${power}`));
    }
    const short = (v) => (v >= 1e6 ? `${v / 1e6} M` : v >= 1e4 ? `${v / 1e3} k` : String(v));
    return { type: "log", range, tickvals: ticks, ticktext: ticks.map(short) };
  }

  // Sizes at which an MPI or the NIC changes its way, where the runs say so.
  function thresholdLines(panel, shapes, annotations) {
    // Where the curves are not: times rise from the left below, bandwidths fill what is above.
    const level = (index) => (panel.higher ? 0.02 + 0.09 * (index % 3) : 0.98 - 0.09 * (index % 3));
    panel.lines.forEach(([size, text], index) => {
      shapes.push({
        type: "line", xref: "x", yref: "y domain", x0: size, x1: size, y0: 0, y1: 1,
        line: { color: colour("soft"), width: 1, dash: "dot" }, layer: "below",
      });
      annotations.push({
        xref: "x", yref: "y domain", x: Math.log10(size), y: level(index), xanchor: "left",
        yanchor: panel.higher ? "bottom" : "top", text: clean(`${sizeText(size)}: ${text}`), showarrow: false,
        font: { size: 10, color: colour("soft") },
      });
    });
  }

  const axisStyle = () => ({
    gridcolor: colour("grid"), linecolor: colour("soft"), zeroline: false, showline: true,
    ticks: "outside", tickcolor: colour("soft"), ticklen: 4, automargin: false,
  });

  const sheetStyle = (narrow) => ({
    ...(printing ? { width: PRINTED[0], height: PRINTED[1] } : {}),
    paper_bgcolor: colour("sheet"), plot_bgcolor: colour("sheet"), showlegend: false,
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("ink") },
    margin: { l: narrow ? 54 : 62, r: narrow ? 10 : 14, t: 28, b: 44 },
    hovermode: "closest", dragmode: narrow ? false : "zoom",
    hoverlabel: { namelength: -1, bgcolor: colour("sheet"), bordercolor: colour("rule"), font: { color: colour("ink") } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("soft"), activecolor: colour("ink") },
  });

  function layoutOf(panel, width) {
    const narrow = width < 460;
    const axis = axisStyle();
    const range = ratioRange(panel);
    const ticks = ratioTicks(range);
    const zone = panel.sized
      ? { xref: "x domain", yref: "y2" }
      : { xref: "x2 domain", yref: "y2" };
    const shapes = [
      { type: "rect", ...zone, x0: 0, x1: 1, y0: 1 - panel.margin, y1: 1 + panel.margin,
        fillcolor: colour("zone"), line: { width: 0 }, layer: "below" },
      { type: "line", ...zone, x0: 0, x1: 1, y0: 1, y1: 1,
        line: { color: colour("soft"), width: 1 }, layer: "below" },
    ];
    const annotations = [];
    if (panel.limit !== null) {
      shapes.push({
        type: "line", xref: "x domain", yref: "y", x0: 0, x1: 1, y0: panel.limit, y1: panel.limit,
        line: { color: colour("fail"), width: 1.2, dash: "dash" },
      });
      annotations.push({
        xref: "x domain", yref: "y", x: 0, y: Math.log10(panel.limit), xanchor: "left", yanchor: "bottom",
        text: `limit ${number(panel.limit)} ${panel.unit}`, showarrow: false,
        font: { size: 11, color: colour("fail") },
      });
    }
    thresholdLines(panel, shapes, annotations);
    const layout = { ...sheetStyle(narrow), shapes, annotations };
    const ratioAxis = {
      ...axis, type: "log", range, tickvals: ticks, ticktext: ticks.map(String),
      title: { text: data.byPath ? "ratio (>1 is better)" : "ratio", standoff: 6, font: { size: 12 } },
    };
    const title = (text) => ({ text, standoff: 6, font: { size: 12 } });
    if (!panel.sized) {
      return {
        ...layout,
        xaxis: { ...axis, type: "category", automargin: true, domain: [0, 0.54], range: [-0.5, panel.arms.length - 0.5] },
        yaxis: { ...axis, rangemode: "tozero", title: title(panel.unit) },
        xaxis2: {
          ...axis, type: "category", automargin: true, domain: [0.68, 1], anchor: "y2",
          categoryorder: "array", categoryarray: panel.ratios.map(({ arm }) => clean(arm)),
          range: [-0.5, panel.ratios.length - 0.5],
        },
        yaxis2: { ...ratioAxis, anchor: "x2" },
      };
    }
    return {
      ...layout,
      xaxis: { ...axis, ...sizeAxis(panel, narrow), anchor: "y2", title: title("message size (bytes)") },
      yaxis: { ...axis, ...valueAxis(panel), domain: [0.43, 1], title: title(panel.unit) },
      yaxis2: { ...ratioAxis, domain: [0, 0.36], anchor: "x" },
    };
  }

  const ranks = window.stackproofRanks({
    axisStyle, colour, named, number, ratioRange, ratioTicks, sheetStyle, styleOf, valueAxis,
  });

  // One drawing of a figure at a time: the library does not expect a second call during the first.
  function draw(panel) {
    const before = drawn.get(panel.id) ?? Promise.resolve();
    const done = before.then(() => {
      const target = document.getElementById(panel.id);
      const overRanks = panel.counts !== undefined;
      const main = panel.sized ? curveTraces : launchTraces;
      const found = overRanks ? ranks.traces(panel) : [...main(panel), ...ratioTraces(panel)];
      const traces = found.map((trace) => ({ ...trace, visible: !hidden.has(trace.meta) }));
      const layout = (overRanks ? ranks.layout : layoutOf)(panel, printing ? PRINTED[0] : target.clientWidth);
      return window.Plotly.react(target, traces, layout, CONFIG);
    });
    drawn.set(panel.id, done);
    return done;
  }

  const figures = [...data.panels, ...data.scaling];
  const redraw = () => Promise.all(figures.filter((panel) => drawn.has(panel.id)).map(draw));
  const drawAll = () => Promise.all(figures.map(draw));

  // For paper every figure is drawn anew, in its size and on white, also for who reads in the dark.
  function paper(wanted) {
    printing = wanted;
    document.documentElement.classList.toggle("printing", wanted);
    legend();
    return wanted ? drawAll() : redraw();
  }

  function swatch(name) {
    const { colour: ink, dash, width, symbol } = styleOf(name);
    const pattern = { solid: "", dash: "6 4", dashdot: "7 3 2 3", longdash: "10 4", dot: "2 3", longdashdot: "10 3 2 3" }[dash];
    return `<svg width="34" height="12" aria-hidden="true"><line x1="1" y1="6" x2="33" y2="6" ` +
      `stroke="${ink}" stroke-width="${width + 0.6}" stroke-dasharray="${pattern}"/>` +
      `<path d="${MARKS[symbol]}" fill="${symbol.endsWith("open") ? colour("sheet") : ink}" stroke="${ink}"/></svg>`;
  }

  function legend() {
    const box = document.getElementById("legend");
    box.replaceChildren(...data.arms.map((arm) => {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", String(!hidden.has(arm.name)));
      button.innerHTML = swatch(arm.name);
      const role = arm.role === "challenger" ? "" : arm.role === "null" ? " (null arm)" : " (baseline)";
      button.append(arm.name + role);
      if (arm.paths.length > 0) {
        const paths = document.createElement("span");
        paths.className = "path";
        paths.textContent = arm.paths.join(", ");
        button.append(paths);
      }
      button.addEventListener("click", () => {
        if (!hidden.delete(arm.name)) hidden.add(arm.name);
        button.setAttribute("aria-pressed", String(!hidden.has(arm.name)));
        redraw();
      });
      return button;
    }));
  }

  async function loadPlotly() {
    const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    if (!window.Plotly) throw new Error("plotly.js did not start");
  }

  async function start() {
    legend();
    for (const box of document.querySelectorAll("input.reference")) {
      box.addEventListener("change", () => {
        if (box.checked) references.add(box.value);
        else references.delete(box.value);
        redraw();
      });
    }
    await loadPlotly();
    // A figure is drawn when it comes near the window: a page may have dozens.
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries.filter((one) => one.isIntersecting)) {
        watcher.unobserve(entry.target);
        draw(figures.find((panel) => panel.id === entry.target.id));
      }
    }, { rootMargin: "800px" });
    for (const panel of figures) watcher.observe(document.getElementById(panel.id));
    for (const choice of document.querySelectorAll("select.size")) {
      choice.addEventListener("change", () => {
        draw(figures.find((panel) => panel.id === choice.dataset.figure));
      });
    }
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      legend();
      redraw();
    });
    window.addEventListener("beforeprint", () => paper(true));
    window.addEventListener("afterprint", () => paper(false));
  }

  const ready = start().catch((error) => {
    const box = document.getElementById("plot-problem");
    box.hidden = false;
    box.textContent = `The curves cannot be drawn in this browser (${error.message}). ` +
      "Every number is in the tables; a newer browser shows the curves too.";
  });
  window.stackproofReport = { ready, drawAll, paper };
})();
