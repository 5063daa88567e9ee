// What is told of a worker's machine, as pairs to read.
import { bytes } from "./format.ts";

interface Device {
  kind?: string;
  name?: string;
  cores?: number;
  memory_bytes?: number | null;
  compute_capability?: number[] | null;
}

/** Names and values of what is known. */
export function hardwareOf(hardware: Record<string, unknown> | null): [string, string][] {
  if (hardware === null) return [["Hardware", "not known yet"]];
  const devices = (Array.isArray(hardware["devices"]) ? hardware["devices"] : []) as Device[];
  const features = Array.isArray(hardware["cpu_features"]) ? hardware["cpu_features"].join(" ") : "";
  const memory = hardware["memory_bytes"];
  const pairs: [string, string][] = devices.map((device) => [device.kind?.toUpperCase() ?? "Device", wordsOf(device)]);
  if (typeof memory === "number") pairs.push(["Memory", bytes(memory)]);
  if (features) pairs.push(["CPU features", features]);
  return pairs;
}

function wordsOf({ name, cores, memory_bytes, compute_capability }: Device): string {
  const more = [cores ? `${cores} cores` : "", memory_bytes ? bytes(memory_bytes) : "", compute_capability ? `compute capability ${compute_capability.join(".")}` : ""];
  return [name ?? "", ...more].filter((word) => word !== "").join(" · ") || "there";
}
