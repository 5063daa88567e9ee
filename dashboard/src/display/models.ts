// Turns versions of models into the text that their pages show.
import type { AliasChange, ModelFile, ModelVersion } from "../api/types.ts";
import { metricValue } from "./metrics.ts";

type Lineage = Record<string, Record<string, unknown> | string | null | undefined>;

const MAX_METRICS = 3;

/** The reference of a version, such as digits:3. */
export function referenceOf({ model, number }: ModelVersion): string {
  return `${model}:${number}`;
}

/** The first metrics of a version, such as `val_accuracy 0.91`. */
export function metricsText(version: ModelVersion, most = MAX_METRICS): string {
  return Object.entries(version.metrics).slice(0, most).map(([name, value]) => `${name} ${metricValue(name, value)}`).join(", ");
}

/** Where a version comes from, each with a title; only what is known. */
export function lineageRows(version: ModelVersion): [string, string][] {
  const lineage = version.lineage as Lineage;
  const part = (name: string) => (typeof lineage[name] === "object" && lineage[name] !== null ? lineage[name] : {}) as Record<string, unknown>;
  const source = part("data")["source"] as Record<string, unknown> | undefined;
  const environment = part("environment");
  const rows: [string, unknown][] = [
    ["Data", part("data")["reference"] ?? source?.["kind"]],
    ["Code", part("code")["bundle"] ?? part("code")["package"] ?? part("code")["kind"]],
    ["Study", lineage["study"]],
    ["Policy", part("precision")["policy"]],
    ["Loss scale", lossScaleText(part("precision"))],
    ["Training seed", part("seeds")["train"]],
    ["Split seed", part("seeds")["split"]],
    ["Device", environment["device"]],
    ["TensorFlow", environment["tensorflow"]],
    ["Keras", environment["keras"]],
  ];
  return rows.filter(([, value]) => value !== null && value !== undefined).map(([title, value]) => [title, String(value)]);
}

/** The mode of a loss scale and its health, such as `dynamic, steady`. */
function lossScaleText({ loss_scale, scale_health }: Record<string, unknown>): string | undefined {
  const mode = (loss_scale as { mode?: string } | null | undefined)?.mode;
  if (mode === undefined || mode === "none") return mode;
  return mode === scale_health || scale_health == null ? mode : `${mode}, ${String(scale_health)}`;
}

/** What is said about the file of a format: how it was checked, or why there is none. */
export function fileNote({ state, reason, checked }: ModelFile): string {
  return state === "available" ? (checked ?? "") : `${state}: ${reason ?? "no reason was recorded"}`;
}

/** A change of an alias in words. */
export function changeText({ alias, from_number, to_number, outcome }: AliasChange): string {
  const from = from_number === null ? "no version" : `version ${from_number}`;
  if (outcome === "removed") return `${alias} was removed from ${from}`;
  if (outcome === "refused" || outcome === "undecided") return `promotion of version ${to_number} to ${alias}: ${outcome}`;
  return `${alias}: ${from} → version ${to_number}${outcome === "promoted" ? ", promoted" : ""}`;
}
