// The text of an event; the events table shows its data as well.
import type { Event, JsonObject } from "../api/types.ts";
import { dataSummary } from "./data-summary.ts";
import { bytes, duration, number, numberOf, lossScale, percent } from "./format.ts";
import { isMetric, metricValue } from "./metrics.ts";

export const EVENT_TYPES = [
  "state", "edited", "allocation", "preflight", "started", "data_fetched", "resumed", "weights_loaded", "engine", "overflow",
  "scale_growth", "loss_spike", "grad_norm_jump", "not_reproducible", "rollback", "float32_fallback", "epoch", "evaluation",
  "stopped_early", "checkpoint_saved", "scale_table", "model_saved", "explanation", "profile", "ranks", "step_times", "warning",
] as const;

type Data = Record<string, unknown>;

const STEP_MARKS: ReadonlySet<string> = new Set(["overflow", "loss_spike", "grad_norm_jump", "not_reproducible"]);
const STEP_WARNINGS: ReadonlySet<unknown> = new Set(["non_finite_loss", "non_finite_gradients"]);

/** Whether the event says that its step is remarkable, so that it can be explained. */
export function marksStep(event: Event): boolean {
  return STEP_MARKS.has(event.type) || (event.type === "warning" && STEP_WARNINGS.has((event.data as Data)["code"]));
}

/** One line that says what happened. */
export function eventText(event: Event): string {
  const data = event.data as Data;
  if (typeof data["sentence"] === "string") return data["sentence"];
  const formatter = EVENT_TEXTS[event.type];
  const formatted = formatter?.(data) ?? data["message"];
  return typeof formatted === "string" && formatted !== "" ? formatted : dataText(data);
}

const EVENT_TEXTS: Record<string, (data: Data) => string | null> = {
  state: (data) => [data["state"] ?? data["to"], data["message"] ?? data["reason"]].filter(Boolean).join(": "),
  overflow: (data) => `Step skipped because of an overflow; ${scaleReduction(data)}.`,
  scale_growth: (data) => `The loss scale${of(data)} was increased ${scaleChange(data)}.`,
  epoch: (data) => `Epoch ${text(data["epoch"])}${withLoss(data)}`,
  evaluation: (data) => Object.keys(data).filter(isMetric)
    .map((name) => `${name} ${metricValue(name, data[name] as number)}`).join(", ") + (data["best"] === true ? " (the best so far)" : ""),
  started: (data) => dataSummary(data as JsonObject)?.sentence ?? null,
  data_fetched: (data) => `Data read from ${text(data["url"])} (${bytes(data["size_bytes"] as number)}).`,
  profile: (data) => {
    const share = (data["sixteen_bit"] as Record<string, number | null> | undefined)?.["of_step"];
    return `Profiled ${text(data["steps"])} steps from step ${text(data["first_step"])} on: ${percent(share)} of the time in 16 bit.`;
  },
  checkpoint_saved: (data) => `Saved${data["size_bytes"] ? ` ${bytes(data["size_bytes"] as number)}` : ""}${durationText(data)}.`,
};

/** What a skipped step did to the loss scale; nothing to one that is fixed or at its minimum. */
function scaleReduction(data: Data): string {
  const [before, after] = [numberOf(data["scale_before"] as number), numberOf(data["scale_after"] as number)];
  if (before === null || after === null) return "the loss scale is not known";
  if (before === after) return before === 1 ? "there is no loss scale to reduce" : `the loss scale stays at ${lossScale(before)}`;
  return `the loss scale was ${after < before ? "reduced" : "increased"} ${scaleChange(data)}`;
}

function scaleChange(data: Data): string {
  return `from ${lossScale(data["scale_before"] as number)} to ${lossScale(data["scale_after"] as number)}`;
}

function of(data: Data): string {
  return data["network"] ? ` of the ${text(data["network"])}` : "";
}

function withLoss(data: Data): string {
  return data["loss"] === undefined ? "" : `: loss ${number(data["loss"] as number)}`;
}

function durationText(data: Data): string {
  return typeof data["seconds"] === "number" ? ` in ${duration(data["seconds"])}` : "";
}

/** The data of an event in one line; of long lists and objects only the number of entries. */
function dataText(data: Data): string {
  return Object.entries(data).map(([name, value]) => `${name.replaceAll("_", " ")}: ${text(value)}`).join(" · ");
}

function text(value: unknown): string {
  if (Array.isArray(value)) return value.length > 6 ? `${value.length} entries` : value.map(text).join(", ");
  if (value !== null && typeof value === "object") return `${Object.keys(value as JsonObject).length} fields`;
  return typeof value === "number" ? number(value) : String(value ?? "–");
}
