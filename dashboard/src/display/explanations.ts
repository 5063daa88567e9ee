// The words of an explanation: what is remarkable about a step, and what it is due to.
import type { Numeric } from "../api/types.ts";
import { number } from "./format.ts";

export interface Counts { inf: number; nan: number; largest: Numeric }
export interface LayerRow { layer: string; kind: string; dtype: string; network: string; forward: Counts; backward: Counts; is_first?: boolean }
export interface VariableRow extends Counts { network: string; variable: string; size: number; largest_value?: Numeric }
export interface TriedRow { dtype: string; loss_scale: Numeric; finite_loss: boolean; finite_gradients: boolean; is_own?: boolean }
export interface Measured { loss: Numeric; grad_norm: Numeric }
export interface InputView {
  kind: "picture" | "text" | "values";
  png?: string; text?: string; shape?: number[]; smallest?: Numeric; largest?: Numeric;
  values?: { name: string; value: Numeric }[]; left_out?: number;
}
export interface Place { file: string | null; row: number | null; character: number | null }
export interface ExampleRow {
  example: number; position: number; place?: Place | null; loss: Numeric | null; nonfinite: number; input_score?: Numeric | null; effect?: Measured; inputs: Record<string, InputView>; targets: Record<string, InputView>;
}

/** The answer of an explanation; see docs/reference/explanations.md. */
export interface Answer {
  step: number; kind: string; attribution: string; sentence: string; advice: string; device: string; policy: string;
  values: Record<string, Numeric | boolean>;
  repeat: { equal_bits: boolean; differences: { name: string; elements: number }[] };
  layers: LayerRow[]; layers_left_out: number; variables: VariableRow[]; variables_left_out: number; tried: TriedRow[];
  comparison: { own: Measured; others: Measured | null; at_start?: Measured | null; untrained?: Measured; other_batches: number } | null;
  batch: { epoch: number; batch: number; total: number };
  examples: { unusual: number; total: number; shown: ExampleRow[] };
}

const KINDS: Record<string, string> = {
  skip: "Skipped step", nonfinite_loss: "Loss not finite", nonfinite_gradients: "Gradients not finite",
  loss_spike: "Loss spike", grad_norm_jump: "Jump of the gradient norm", normal: "Nothing remarkable",
};
const ATTRIBUTIONS: Record<string, string> = {
  data: "the data", loss_scale: "the loss scale", operation: "an operation", weights: "the weights",
  not_reproducible: "not reproducible", normal: "nothing remarkable", unknown: "unknown",
};

export const kindText = (kind: string): string => KINDS[kind] ?? kind;
export const attributionText = (attribution: string): string => ATTRIBUTIONS[attribution] ?? attribution;
export const isBad = (counts: Counts): boolean => counts.inf + counts.nan > 0;

/** "3 inf, 1 NaN, largest 6.5e4". */
export function countsText(counts: Counts): string {
  const bad = [counts.inf ? `${counts.inf} inf` : "", counts.nan ? `${counts.nan} NaN` : ""].filter(Boolean);
  return [...bad, `largest ${number(counts.largest)}`].join(", ");
}

/** "row 812 of birds.csv"; empty if the place is not known. */
export function placeText(place: Place | null | undefined): string {
  if (!place) return "";
  const file = place.file ?? "the data";
  if (place.row !== null) return `row ${place.row} of ${file}`;
  return place.character !== null ? `character ${place.character} of ${file}` : file;
}

/** Whether a computation was finite, in words. */
export function finiteText(row: TriedRow): string {
  if (!row.finite_loss) return "the loss or an output is not finite";
  return row.finite_gradients ? "finite" : "gradients not finite";
}

/** The index of the first row to show of a folded list, so that the marked row is in the middle. */
export function foldedStart(rows: readonly { is_first?: boolean }[], shown: number): number {
  const marked = rows.findIndex((row) => row.is_first);
  return Math.max(0, Math.min(marked - Math.floor(shown / 2), rows.length - shown));
}
