// A plot as an SVG picture: what uPlot has drawn, with its title and legend.
import type { Curve, Values } from "../curves.ts";

export interface Tick {
  at: number;
  text: string;
}

export interface DrawnPlot {
  title: string;
  x: readonly number[];
  curves: readonly (Curve & { colour: string })[];
  width: number;
  height: number;
  /** The area of the curves. */
  area: { left: number; top: number; width: number; height: number };
  /** Positions within the area. */
  toLeft: (x: number) => number;
  toTop: (y: number) => number;
  isStepped: boolean;
  lineWidth: number;
  showsLegend: boolean;
  xTicks: readonly Tick[];
  yTicks: readonly Tick[];
  skips: readonly number[];
  colours: { text: string; muted: string; grid: string; ground: string; skip: string };
}

const HEAD_PX = 30;
const LEGEND_LINE_PX = 16;
const LEGEND_ENTRY_PX = 150;
const SKIP_PX = 9;
const MARKER_PX = 5;

export function plotSvg(plot: DrawnPlot): string {
  const { width, area, colours, curves } = plot;
  const perLine = Math.max(1, Math.floor((width - 20) / LEGEND_ENTRY_PX));
  const head = HEAD_PX + (plot.showsLegend ? LEGEND_LINE_PX * Math.ceil(curves.length / perLine) : 0);
  const height = plot.height + head;
  const legend = curves.map(({ name, colour }, index) => {
    const [left, top] = [12 + (index % perLine) * LEGEND_ENTRY_PX, HEAD_PX + LEGEND_LINE_PX * Math.floor(index / perLine)];
    return `<rect x="${left}" y="${top - 4}" width="12" height="3" fill="${colour}"/>${text(left + 17, top, name, colours.text)}`;
  });
  const parts = [
    `<rect width="${width}" height="${height}" fill="${colours.ground}"/>`,
    text(12, 19, plot.title, colours.text, 'font-weight="bold"'),
    ...(plot.showsLegend ? legend : []),
    `<g transform="translate(${round(area.left)} ${round(area.top + head)})">`,
    ...axes(plot),
    `<clipPath id="area"><rect width="${round(area.width)}" height="${round(area.height)}"/></clipPath><g clip-path="url(#area)">`,
    ...curves.map((curve) => curvePaths(plot, curve)),
    ...plot.skips.map((at) => `<rect x="${round(plot.toLeft(at) - 1)}" y="${round(area.height - SKIP_PX)}" width="2" height="${SKIP_PX}" fill="${colours.skip}"/>`),
    "</g></g>",
  ];
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="11">${parts.join("")}</svg>`;
}

function axes({ area, xTicks, yTicks, toLeft, toTop, colours }: DrawnPlot): string[] {
  const line = (x1: number, y1: number, x2: number, y2: number) =>
    `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" stroke="${colours.grid}"/>`;
  const xs = xTicks.map(({ at, text: label }) => line(toLeft(at), 0, toLeft(at), area.height) + text(toLeft(at), area.height + 16, label, colours.muted, 'text-anchor="middle"'));
  const ys = yTicks.map(({ at, text: label }) => line(0, toTop(at), area.width, toTop(at)) + text(-6, toTop(at) + 4, label, colours.muted, 'text-anchor="end"'));
  return [...xs, ...ys];
}

function curvePaths(plot: DrawnPlot, { colour, mean, raw, low, high, nonFinite }: DrawnPlot["curves"][number]): string {
  const stroke = (values: Values, extra: string) => `<path d="${linePath(plot, values)}" fill="none" stroke="${colour}" stroke-linejoin="round" ${extra}/>`;
  const band = low && high ? `<path d="${bandPath(plot, low, high)}" fill="${colour}" fill-opacity="0.22"/>` : "";
  const faint = raw ? stroke(raw, 'stroke-opacity="0.3"') : "";
  const markers = [...nonFinite.keys()].flatMap((index) => {
    const at = plot.x[index];
    if (at === undefined) return [];
    const left = plot.toLeft(at);
    return [`<path d="M${round(left)} 0l${-MARKER_PX} ${1.6 * MARKER_PX}h${2 * MARKER_PX}z" fill="${colour}"/>`];
  });
  return band + faint + stroke(mean, `stroke-width="${plot.lineWidth}"`) + markers.join("");
}

/** A line through the points; null interrupts it, and undefined is no point. */
function linePath({ x, toLeft, toTop, isStepped }: DrawnPlot, values: Values): string {
  let path = "";
  let isDown = false;
  for (const [index, value] of values.entries()) {
    if (value === undefined) continue;
    if (value === null) {
      isDown = false;
      continue;
    }
    const [left, top] = [round(toLeft(x[index]!)), round(toTop(value))];
    path += !isDown ? `M${left} ${top}` : isStepped ? `H${left}V${top}` : `L${left} ${top}`;
    isDown = true;
  }
  return path;
}

function bandPath({ x, toLeft, toTop }: DrawnPlot, low: Values, high: Values): string {
  const indices = [...x.keys()].filter((index) => low[index] != null && high[index] != null);
  const point = (row: Values) => (index: number) => `${round(toLeft(x[index]!))} ${round(toTop(row[index]!))}`;
  return indices.length === 0 ? "" : `M${[...indices.map(point(high)), ...indices.toReversed().map(point(low))].join("L")}Z`;
}

function text(x: number, y: number, content: string, fill: string, extra = ""): string {
  const escaped = content.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<text x="${round(x)}" y="${round(y)}" fill="${fill}" ${extra}>${escaped}</text>`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
