// How uPlot is to draw one plot.
import uPlot from "uplot";
import { number, power } from "../words/format.ts";
import { AXIS_PX, RIGHT_PX, type ChartProps } from "./chart.tsx";

/** What a drawing cannot change any more. */
export interface Shape {
  bands: boolean[];
  isLog2: boolean;
  hasAxis: boolean;
  group: string;
}

const PLOT_PX = 116;
const X_AXIS_PX = 30;
const CURVES = 10;
const ROOM = 1.19; // above and below the powers of two
const MOST_LINES = 5;

export function optionsOf(
  shape: Shape,
  element: HTMLElement,
  props: () => ChartProps,
  tell: (index: number | null) => void,
): uPlot.Options {
  const { series, bands } = linesOf(shape);
  return {
    width: element.clientWidth || 600,
    height: PLOT_PX + (shape.hasAxis ? X_AXIS_PX : 0),
    padding: [6, RIGHT_PX, 6, 0],
    legend: { show: false },
    scales: {
      x: { time: false, range: () => rangeOf(props()) },
      y: shape.isLog2 ? { distr: 3, log: 2, range: (_, least, most) => [least / ROOM, most * ROOM] } : {},
    },
    axes: axesOf(shape, props),
    series: [{}, ...series],
    bands,
    cursor: {
      y: false,
      sync: { key: shape.group, setSeries: false },
      drag: { x: true, y: false, setScale: false, dist: 4 },
      points: { size: 6 },
      bind: {
        dblclick: () => () => {
          props().onReset();
          return null;
        },
      },
    },
    hooks: {
      setCursor: [(plot) => tell(plot.cursor.idx ?? null)],
      setSelect: [(plot) => zoomed(plot, props)],
    },
  };
}

function rangeOf({ range }: ChartProps): uPlot.Range.MinMax {
  return range[1] > range[0] ? [range[0], range[1]] : [range[0], range[0] + 1];
}

/** Tell what was selected; the plots that share the cursor all tell the same. */
function zoomed(plot: uPlot, props: () => ChartProps): void {
  const { left, width } = plot.select;
  if (width < 4) return;
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  props().onZoom([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
}

function linesOf(shape: Shape): { series: uPlot.Series[]; bands: uPlot.Band[] } {
  const series: uPlot.Series[] = [];
  const bands: uPlot.Band[] = [];
  const spanGaps = true; // a skipped step's infinite norm is no end of the line
  for (const [index, hasBand] of shape.bands.entries()) {
    const stroke = colour(`--curve-${(index % CURVES) + 1}`);
    const dash = index >= 4 ? [6, 3] : [];
    series.push({ stroke, width: 1.5, dash, spanGaps, points: { show: false } });
    if (!hasBand) continue;
    const edge = { stroke: "transparent", width: 0, spanGaps, points: { show: false } };
    const high = series.push(edge, { ...edge }) - 1;
    bands.push({ series: [high, high + 1], fill: `${stroke}38` });
  }
  return { series, bands };
}

function axesOf(shape: Shape, props: () => ChartProps): uPlot.Axis[] {
  const font = `11px ${colour("--font") || "sans-serif"}`;
  const lines = { stroke: colour("--muted"), font, grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false } };
  const short = (values: number[]) => values.map((value) => (value === null ? "" : yWords(value, shape.isLog2)));
  return [
    { ...lines, show: true, size: shape.hasAxis ? X_AXIS_PX : 0, values: (_, values) => (shape.hasAxis ? values.map(props().xWords) : values.map(() => "")) },
    { ...lines, size: AXIS_PX, space: 26, values: (_, values) => short(values), ...(shape.isLog2 ? { splits: powersOf, filter: (_, powers) => powers } : {}) },
  ];
}

/** A few powers of two between the least and the greatest value. */
function powersOf(_plot: uPlot, _axis: number, least: number, most: number): number[] {
  const [first, last] = [Math.ceil(Math.log2(least)), Math.floor(Math.log2(most))];
  const by = Math.max(1, Math.ceil((last - first) / MOST_LINES));
  const powers: number[] = [];
  for (let exponent = first; exponent <= last; exponent += by) powers.push(2 ** exponent);
  return powers;
}

function yWords(value: number, isLog2: boolean): string {
  const exponent = Math.log2(value);
  if (isLog2) return Number.isInteger(exponent) ? power(exponent) : number(value, 3);
  return Math.abs(value) >= 10_000 ? value.toLocaleString("en", { notation: "compact" }) : number(value, 3);
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
