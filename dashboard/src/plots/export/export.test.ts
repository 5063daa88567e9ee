import assert from "node:assert/strict";
import { test } from "node:test";
import type { Curve } from "../curves.ts";
import { plotCsv } from "./csv.ts";
import { fileName } from "./save.ts";
import { plotSvg, type DrawnPlot } from "./svg.ts";

const curve: Curve = { name: "a,b", mean: [1, undefined, null, 0.1], low: [0, undefined, null, 0], high: [2, undefined, null, 1], nonFinite: new Map([[2, Infinity]]) };

test("CSV has the points in view, their bands and what is not finite", () => {
  assert.equal(plotCsv("step", [0, 1, 2, 3], [curve], [0, 2]), 'step,"a,b","a,b min","a,b max"\r\n0,1,0,2\r\n2,Infinity,,\r\n');
  assert.match(plotCsv("step", [0], [{ ...curve, name: "=1+1", low: null, high: null }], [0, 1]), /^step,'=1\+1\r\n/);
});

test("SVG has the lines, gaps, bands, markers and labels of the plot", () => {
  const plot: DrawnPlot = {
    title: "Loss <1>", x: [0, 1, 2, 3], curves: [{ ...curve, colour: "#123456" }], width: 400, height: 200,
    area: { left: 60, top: 10, width: 300, height: 150 }, toLeft: (x) => 100 * x, toTop: (y) => 150 - 50 * y, isStepped: false, lineWidth: 1.5,
    showsLegend: true, xTicks: [{ at: 1, text: "1" }], yTicks: [], skips: [2], colours: { text: "#000", muted: "#333", grid: "#eee", ground: "#fff", skip: "#f00" },
  };
  const svg = plotSvg(plot);
  assert.match(svg, /Loss &lt;1></);
  assert.match(svg, /<path d="M0 100M300 145" fill="none" stroke="#123456"/); // the infinite value interrupts the line
  assert.match(svg, /<path d="M0 50L300 100L300 150L0 150Z" fill="#123456"/);
  assert.match(svg, /<path d="M200 0l-5 8h10z"/);
  assert.match(svg, /<rect x="199" y="141" width="2" height="9" fill="#f00"/);
  assert.match(plotSvg({ ...plot, isStepped: true, curves: [{ ...curve, mean: [0, 1], colour: "#123456" }] }), /d="M0 150H100V100"/);
});

test("files are named after the job and the plot", () => {
  assert.equal(fileName("Digits, lr=0.1", "Examples/s"), "digits-lr=0.1-examples-s");
  assert.equal(fileName("…"), "plot");
});
