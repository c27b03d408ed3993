// Draws the figures over ranks. `tools` are the functions of report.js that say how everything looks.
"use strict";
window.stackproofRanks = (tools) => {
  const { axisStyle, colour, named, number, ratioRange, ratioTicks, sheetStyle, styleOf, valueAxis } = tools;

  // The size that is chosen above a figure.
  function chosenSize(group) {
    const choice = document.querySelector(`select.size[data-figure="${group.id}"]`);
    return choice ? Number(choice.value) : group.sizes[0];
  }

  // Columns of a cell: placement, size, median, smallest, largest, ratio, low, high, path.
  function series(group, arm, rows, columns, text) {
    const [low, middle, high] = columns;
    const style = styleOf(arm);
    // Arms stand side by side, so that their intervals can be told apart.
    const shift = 0.07 * (group.arms.findIndex((one) => one.arm === arm) - (group.arms.length - 1) / 2);
    return {
      type: "scatter", mode: "lines+markers", meta: arm, name: named(arm, rows[0]?.[8]),
      x: rows.map((cell) => group.counts.findIndex((count) => count.name === cell[0]) + shift),
      y: rows.map((cell) => cell[middle]),
      line: { color: style.colour, width: style.width, dash: style.dash },
      marker: { color: style.colour, symbol: style.symbol, size: 7 },
      error_y: {
        type: "data", symmetric: false, color: style.colour, thickness: 1.2, width: 3,
        array: rows.map((cell) => cell[high] - cell[middle]),
        arrayminus: rows.map((cell) => cell[middle] - cell[low]),
      },
      customdata: rows.map(text), hovertemplate: "%{customdata}",
    };
  }

  function traces(group) {
    const size = chosenSize(group);
    return group.arms.flatMap(({ arm, cells }) => {
      const rows = cells.filter((cell) => cell[1] === size);
      const known = rows.filter((cell) => cell[5] !== null && cell[6] !== null);
      const values = series(group, arm, rows, [3, 2, 4], (cell) =>
        `${cell[0]}<br><b>${number(cell[2])} ${group.unit}</b><br>${number(cell[3])} to ${number(cell[4])}`);
      const ratios = series(group, arm, known, [6, 5, 7], (cell) =>
        `${cell[0]}<br><b>${cell[5].toFixed(3)}</b> (${cell[6].toFixed(3)} to ${cell[7].toFixed(3)})`);
      return known.length > 0 ? [values, { ...ratios, yaxis: "y2" }] : [values];
    });
  }

  // Counts that were not timed stay empty, and say so.
  function untimed(group) {
    const places = group.counts.map((count, index) => ({ ...count, index })).filter((count) => !count.timed);
    return {
      shapes: places.map(({ index }) => ({
        type: "rect", xref: "x", yref: "y domain", x0: index - 0.4, x1: index + 0.4, y0: 0, y1: 1,
        fillcolor: colour("grid"), opacity: 0.6, line: { width: 0 }, layer: "below",
      })),
      annotations: places.map(({ index }) => ({
        xref: "x", yref: "y domain", x: index, y: 0.5, text: "validated, not timed", textangle: -90,
        showarrow: false, font: { size: 11, color: colour("soft") },
      })),
    };
  }

  function layout(group, width) {
    const narrow = width < 460;
    const size = chosenSize(group);
    const rows = group.arms.flatMap(({ cells }) => cells.filter((cell) => cell[1] === size));
    const values = rows.flatMap((cell) => [cell[3], cell[4]]);
    const like = {
      arms: [{ points: values.map((value) => [size, value, value, value]) }],
      references: [], marks: [], limit: null, margin: group.margin,
      ratios: [{ cells: rows.filter((cell) => cell[5] !== null).map((cell) => [size, cell[5], cell[6], cell[7]]) }],
    };
    const range = ratioRange(like);
    const ticks = ratioTicks(range);
    const axis = axisStyle();
    const title = (text) => ({ text, standoff: 6, font: { size: 12 } });
    const zone = { xref: "x domain", yref: "y2", x0: 0, x1: 1, layer: "below" };
    const { shapes, annotations } = untimed(group);
    const several = group.counts.some((count) => count.nodes > 1);
    const tick = ({ ranks, nodes }) => (several ? `${ranks}<br>${nodes}\u00d7${ranks / nodes}` : String(ranks));
    return {
      ...sheetStyle(narrow),
      margin: { l: narrow ? 54 : 62, r: narrow ? 10 : 14, t: 28, b: several ? 58 : 44 },
      shapes: [
        { type: "rect", ...zone, y0: 1 - group.margin, y1: 1 + group.margin, fillcolor: colour("zone"), line: { width: 0 } },
        { type: "line", ...zone, y0: 1, y1: 1, line: { color: colour("soft"), width: 1 } },
        ...shapes,
      ],
      annotations,
      xaxis: {
        ...axis, anchor: "y2", range: [-0.5, group.counts.length - 0.5],
        tickvals: group.counts.map((_, index) => index), ticktext: group.counts.map(tick),
        title: title(several ? "ranks (nodes \u00d7 ranks on each)" : "ranks"),
      },
      yaxis: { ...axis, ...valueAxis(like), domain: [0.43, 1], title: title(group.unit) },
      yaxis2: {
        ...axis, type: "log", range, tickvals: ticks, ticktext: ticks.map(String), domain: [0, 0.36], anchor: "x",
        title: title("ratio (>1 is better)"),
      },
    };
  }

  return { traces, layout };
};
