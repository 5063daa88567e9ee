// The heat map of a range sample: the share of each layer's values with each exponent.
import { power } from "./format.ts";
import type { FormatReport, JsonObject, Ranges } from "../api/types.ts";

export type TensorKind = "activations" | "activation_gradients" | "weight_gradients";
export type Sample = Ranges["samples"][number];
export type Fit = "normal" | "subnormal" | "outside";

export const TENSOR_KINDS: readonly (readonly [TensorKind, string])[] = [
  ["activations", "Activations"],
  ["activation_gradients", "Gradients of activations"],
  ["weight_gradients", "Gradients of weights"],
];

/** The ends of a format are shown if the values come so near; those of bfloat16 are far away. */
const NEAR = 24;

interface Histogram {
  first_exponent: number;
  counts: number[];
  zeros: number;
}

export interface Cell {
  exponent: number;
  /** Of the values other than 0. */
  share: number;
  fit: Fit;
}

export interface HeatRow {
  layer: string;
  cells: Cell[];
  zeros: number;
}

export interface HeatMap {
  rows: HeatRow[];
  first: number;
  last: number;
  /** The exponents of the format's numbers, of values before the loss scale. */
  window: { smallest: number; normal: number; largest: number };
}

/** The layers of a sample that have this kind of tensors; null if none has. */
export function heatMap(sample: Sample, kind: TensorKind, window: FormatReport["window"]): HeatMap | null {
  const rows: HeatRow[] = [];
  const scales = new Set<number>();
  for (const layer of sample.layers as unknown as JsonObject[]) {
    const histogram = layer[kind] as unknown as Histogram | undefined;
    if (!histogram) continue;
    const scale = kind === "activations" ? 0 : Math.round(Math.log2(sample.scales[String(layer["network"])] ?? 1));
    scales.add(scale);
    rows.push(heatRow(String(layer["layer"]), histogram, (exponent) => fitOf(exponent + scale, window)));
  }
  if (rows.length === 0) return null;
  const shift = Math.max(...scales);
  const shown = {
    smallest: window.min_subnormal - shift,
    normal: window.min_normal - shift,
    largest: window.max - shift,
  };
  const exponents = rows.flatMap((row) => row.cells.map((cell) => cell.exponent));
  const [low, high] = [Math.min(...exponents), Math.max(...exponents)];
  return {
    rows,
    first: (low - shown.smallest <= NEAR ? Math.min(low, shown.smallest) : low) - 1,
    last: (shown.largest - high <= NEAR ? Math.max(high, shown.largest) : high) + 1,
    window: shown,
  };
}

function heatRow(layer: string, histogram: Histogram, fit: (exponent: number) => Fit): HeatRow {
  const total = histogram.counts.reduce((sum, count) => sum + count, 0);
  const cells = histogram.counts.flatMap((count, index) => {
    const exponent = histogram.first_exponent + index;
    return count > 0 ? [{ exponent, share: count / total, fit: fit(exponent) }] : [];
  });
  return { layer, cells, zeros: histogram.zeros / Math.max(1, total + histogram.zeros) };
}

function fitOf(exponent: number, window: FormatReport["window"]): Fit {
  // The numbers just below the smallest one round up to it.
  if (exponent > window.max || exponent < window.min_subnormal - 1) return "outside";
  return exponent < window.min_normal ? "subnormal" : "normal";
}

/** The opacity of a cell: rare values must be seen too. */
export function opacity(share: number): number {
  return Math.min(1, 0.12 + 0.88 * Math.sqrt(share));
}

/** A few exponents for the axis, multiples of a round number. */
export function ticks(first: number, last: number, most = 12): number[] {
  const step = [1, 2, 4, 5, 10, 20, 40].find((one) => (last - first) / one <= most) ?? 50;
  const found: number[] = [];
  for (let at = Math.ceil(first / step) * step; at <= last; at += step) found.push(at);
  return found;
}

/** The loss scales that suit a tensor, for people. */
export function scaleRange(lowest: number | null, highest: number | null): string {
  if (lowest === null || highest === null) return "none";
  return lowest === highest ? power(lowest) : `${power(lowest)} to ${power(highest)}`;
}

const MAX_CELL_PX = 16;
/** Below this a cell cannot be seen or pointed at; the map scrolls then. */
const MIN_CELL_PX = 3;

/** The width of a cell at which all columns fit into a width, if they can be seen then. */
export function cellWidth(columns: number, availablePx: number): number {
  return Math.max(MIN_CELL_PX, Math.min(MAX_CELL_PX, Math.floor((10 * availablePx) / columns) / 10));
}
