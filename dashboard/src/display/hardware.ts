// The hardware of a worker as pairs of name and value.
import { bytes } from "./format.ts";
import { packagesText, sandboxText } from "./custom-code.ts";

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

/** Leaves out what the worker has not reported. */
export function hardwarePairs(hardware: Record<string, unknown> | null): [string, string][] {
  if (hardware === null) return [["Hardware", "not reported yet"]];
  const devices = (Array.isArray(hardware["devices"]) ? hardware["devices"] : []) as Device[];
  const features = Array.isArray(hardware["cpu_features"]) ? hardware["cpu_features"].join(" ") : "";
  const memory = hardware["memory_bytes"];
  const pairs: [string, string][] = devices.map((device) => [device.kind?.toUpperCase() ?? "Device", deviceText(device)]);
  if (typeof memory === "number") pairs.push(["Memory", bytes(memory)]);
  if (features) pairs.push(["CPU features", features]);
  if ("isolation" in hardware) pairs.push(["Trainer isolation", isolationText(hardware["isolation"] as Isolation | null)]);
  if ("sandbox" in hardware) pairs.push(["Sandbox", sandboxText(hardware) ?? "none: it takes no jobs with code of their own"]);
  if (packagesText(hardware)) pairs.push(["Packages", packagesText(hardware)]);
  return pairs;
}

/** How a worker isolates its trainers from the rest of the machine. */
function isolationText(isolation: Isolation | null): string {
  if (isolation === null) return "none";
  const kept = [
    isolation.own_user ? "separate user" : "",
    isolation.files ? "restricted file access" : "",
    isolation.processes ? "no access to other processes" : "",
    isolation.tcp ? "no TCP" : "",
  ];
  return [kept.filter((word) => word !== "").join(", ") || "resource limits only", ...(isolation.missing ?? [])].join(". ");
}

function deviceText({ name, cores, memory_bytes, compute_capability }: Device): string {
  const more = [cores ? `${cores} cores` : "", memory_bytes ? bytes(memory_bytes) : "", compute_capability ? `compute capability ${compute_capability.join(".")}` : ""];
  return [name ?? "", ...more].filter((word) => word !== "").join(" · ") || "present";
}
