// What is told of a worker's machine, as pairs to read.
import { bytes } from "./format.ts";

interface Device {
  kind?: string;
  name?: string;
  cores?: number;
  memory_bytes?: number | null;
  compute_capability?: number[] | null;
}

interface Isolation {
  own_user?: boolean;
  files?: boolean;
  processes?: boolean;
  tcp?: boolean;
  missing?: string[];
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
  if ("isolation" in hardware) pairs.push(["Trainers", isolationOf(hardware["isolation"] as Isolation | null)]);
  return pairs;
}

/** How the trainers of a worker are kept from everything else on its machine. */
function isolationOf(isolation: Isolation | null): string {
  if (isolation === null) return "not isolated";
  const kept = [
    isolation.own_user ? "a user of their own" : "",
    isolation.files ? "no files but their own" : "",
    isolation.processes ? "no other process" : "",
    isolation.tcp ? "no TCP" : "",
  ];
  return [kept.filter((word) => word !== "").join(", ") || "limits only", ...(isolation.missing ?? [])].join(". ");
}

function wordsOf({ name, cores, memory_bytes, compute_capability }: Device): string {
  const more = [cores ? `${cores} cores` : "", memory_bytes ? bytes(memory_bytes) : "", compute_capability ? `compute capability ${compute_capability.join(".")}` : ""];
  return [name ?? "", ...more].filter((word) => word !== "").join(" · ") || "there";
}
