// What an entry of the ledger says, in a sentence; its data stand beside it for everything else.
import type { Event, JsonObject } from "../api/types.ts";
import { bytes, duration, number, scale } from "./format.ts";

export const EVENT_TYPES = [
  "state", "edited", "preflight", "started", "resumed", "engine", "overflow", "scale_growth", "rollback",
  "float32_fallback", "epoch", "evaluation", "checkpoint_saved", "scale_table", "model_saved", "warning",
] as const;

type Data = Record<string, unknown>;

/** One line for people. */
export function sentenceOf(event: Event): string {
  const data = event.data as Data;
  if (typeof data["sentence"] === "string") return data["sentence"];
  const say = SENTENCES[event.type];
  const told = say?.(data) ?? data["message"];
  return typeof told === "string" && told !== "" ? told : plain(data);
}

const SENTENCES: Record<string, (data: Data) => string | null> = {
  state: (data) => [data["state"] ?? data["to"], data["message"] ?? data["reason"]].filter(Boolean).join(": "),
  overflow: (data) => `The step was skipped; the loss scale went ${change(data)}.`,
  scale_growth: (data) => `The loss scale${of(data)} went ${change(data)}.`,
  epoch: (data) => `Epoch ${text(data["epoch"])}${withLoss(data)}`,
  evaluation: (data) => ["val_loss", "val_accuracy"].filter((name) => name in data)
    .map((name) => `${name} ${number(data[name] as number)}`).join(", "),
  checkpoint_saved: (data) => `Saved${data["size_bytes"] ? ` ${bytes(data["size_bytes"] as number)}` : ""}${took(data)}.`,
};

function change(data: Data): string {
  return `from ${scale(data["scale_before"] as number)} to ${scale(data["scale_after"] as number)}`;
}

function of(data: Data): string {
  return data["network"] ? ` of the ${text(data["network"])}` : "";
}

function withLoss(data: Data): string {
  return data["loss"] === undefined ? "" : `: loss ${number(data["loss"] as number)}`;
}

function took(data: Data): string {
  return typeof data["seconds"] === "number" ? ` in ${duration(data["seconds"])}` : "";
}

/** Facts as one line; lists and objects only by how many things they hold. */
function plain(data: Data): string {
  return Object.entries(data).map(([name, value]) => `${name.replaceAll("_", " ")}: ${text(value)}`).join(" · ");
}

function text(value: unknown): string {
  if (Array.isArray(value)) return value.length > 6 ? `${value.length} entries` : value.map(text).join(", ");
  if (value !== null && typeof value === "object") return `${Object.keys(value as JsonObject).length} facts`;
  return typeof value === "number" ? number(value) : String(value ?? "–");
}
