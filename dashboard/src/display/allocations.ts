// Allocations of batch systems, in words.
import type { Allocation } from "../api/types.ts";

const BATCH_SYSTEMS: Record<string, string> = { slurm: "Slurm", kubernetes: "Kubernetes" };

/** For example `Slurm job 4711`; without an id before it is submitted, and if it was refused. */
export function allocationName({ engine, external_id }: Pick<Allocation, "engine" | "external_id">): string {
  const kind = external_id?.includes("/") ? null : "job"; // Kubernetes job/NAME
  return [BATCH_SYSTEMS[engine] ?? engine, kind, external_id].filter(Boolean).join(" ");
}
