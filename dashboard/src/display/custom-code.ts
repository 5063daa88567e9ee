// What a job needs besides this project: an installed package, or code of its user in a sandbox.
import type { Job, JsonObject } from "../api/types.ts";
import { bytes, integer } from "./format.ts";

/** The package that a spec names, and what it names of it: "model two_towers". */
export function packageOf(job: Pick<Job, "spec">): { name: string; parts: string[] } | null {
  const spec = (job.spec ?? {}) as JsonObject;
  const found = [
    ["model", spec["model"]] as const,
    ["dataset", spec["data"]] as const,
    ...ofTask(spec["task"]),
    ["optimizer", spec["optimizer"]] as const,
    ...Object.entries(objectOf(spec["optimizers"])).map(([name, one]) => [`optimizer of ${name}`, one] as const),
  ].filter(([, part]) => objectOf(part)["kind"] === "package");
  if (found.length === 0) return null;
  return { name: String(objectOf(found[0]![1])["package"]), parts: found.map(([kind, part]) => `${kind} ${String(objectOf(part)["name"])}`) };
}

/** The loss and the metrics of a task, or of each of its outputs. */
function ofTask(task: unknown): (readonly [string, unknown])[] {
  const given = objectOf(task);
  const outputs = Object.entries(objectOf(given["outputs"])).flatMap(([name, output]) => ofOutput(objectOf(output)["task"], ` of ${name}`));
  return [...ofOutput(given, ""), ...outputs];
}

function ofOutput(task: unknown, suffix: string): (readonly [string, unknown])[] {
  const { loss, metrics } = objectOf(task);
  return [[`loss${suffix}`, loss], ...(Array.isArray(metrics) ? metrics : []).map((one) => [`metric${suffix}`, one] as const)];
}

/** True for a job that runs code of its user, which needs a sandbox. */
export function runsCustomCode(job: Pick<Job, "spec">): boolean {
  return objectOf(objectOf(job.spec)["model"])["kind"] === "bundle";
}

/** The sandbox of a worker with its limits; null if it has none, or has not reported it. */
export function sandboxText(hardware: unknown): string | null {
  const { kind, memory_bytes, processes, disk_bytes } = objectOf(objectOf(hardware)["sandbox"]);
  if (typeof kind !== "string") return null;
  const limits = [
    typeof memory_bytes === "number" ? `${bytes(memory_bytes)} of memory` : "",
    typeof processes === "number" ? `${integer(processes)} processes and threads` : "",
    typeof disk_bytes === "number" ? `${bytes(disk_bytes)} of files` : "",
  ].filter((text) => text !== "");
  return limits.length > 0 ? `${kind}, at most ${limits.join(", ")}` : kind;
}

/** The packages of a worker with their versions: "custom-package 1.0". */
export function packagesText(hardware: unknown): string {
  const entries = objectOf(hardware)["packages"];
  const names = (Array.isArray(entries) ? entries : []).map(objectOf).map((one) => `${String(one["package"])} ${String(one["version"] ?? "")}`.trim());
  return [...new Set(names)].join(", ");
}

/** The options of an entry of a package by its JSON schema: "units (integer, required)". */
export function optionTexts(schema: unknown): string[] {
  const { properties, required } = objectOf(schema);
  const needed = Array.isArray(required) ? required : [];
  return Object.entries(objectOf(properties)).map(([name, given]) => {
    const option = objectOf(given);
    const facts = [
      typeof option["type"] === "string" ? option["type"] : "",
      Array.isArray(option["enum"]) ? option["enum"].join(" or ") : "",
      needed.includes(name) ? "required" : "default" in option ? `default ${JSON.stringify(option["default"])}` : "",
    ].filter((text) => text !== "");
    return facts.length > 0 ? `${name} (${facts.join(", ")})` : name;
  });
}

function objectOf(value: unknown): Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}
