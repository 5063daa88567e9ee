// What is told of a worker's machine, as pairs to read.
import { bytes } from "./format.ts";

interface Device {
  kind?: string;
  name?: string;
  memory_bytes?: number;
  compute_capability?: string | number[];
}

/** Names and values of what is known; of what is not known nothing is said. */
export function hardwareOf(hardware: Record<string, unknown> | null): [string, string][] {
  if (hardware === null) return [["Hardware", "not known yet"]];
  const devices = (Array.isArray(hardware["devices"]) ? hardware["devices"] : []) as Device[];
  const pairs: [string, unknown][] = [
    ["Processor", processorOf(hardware)],
    ["Memory", typeof hardware["memory_bytes"] === "number" ? bytes(hardware["memory_bytes"]) : null],
    ["GPUs", devices.filter((device) => device.kind === "gpu").map(deviceWords).join(", ")],
    ["TensorFlow", hardware["tensorflow"]],
  ];
  return pairs.filter(([, value]) => typeof value === "string" && value !== "") as [string, string][];
}

function processorOf(hardware: Record<string, unknown>): string {
  const name = [hardware["cpu_name"], hardware["cpu_model"], hardware["cpu"]].find((one) => typeof one === "string");
  const count = [hardware["cpu_count"], hardware["cpus"], hardware["cores"]].find((one) => typeof one === "number");
  return [name, count === undefined ? null : `${String(count)} cores`].filter(Boolean).join(" · ");
}

function deviceWords(device: Device): string {
  const memory = device.memory_bytes ? ` (${bytes(device.memory_bytes)})` : "";
  return `${device.name ?? "GPU"}${memory}`;
}
