// The report of a profile (docs/reference/profile.md), and how its tables are sorted.
import type { Artifact, Job } from "../api/types.ts";

export const PROFILED_STEPS = 10;
const FIRST_STEP = 10;
/** A copy trains no longer than its profile needs. */
export const COPY_STEPS = FIRST_STEP + PROFILED_STEPS;

/** The spec of a short copy of a job whose last steps are profiled. Labels of studies stay out. */
export function profiledCopy(job: Pick<Job, "name" | "spec">): Record<string, unknown> {
  const spec = job.spec as { labels?: Record<string, string>; runtime?: object; train?: object };
  const { study, study_job, ...labels } = { ...spec.labels };
  const runtime = { ...spec.runtime, profile: { start: FIRST_STEP, steps: PROFILED_STEPS } };
  return { ...spec, name: `${job.name.slice(0, 180)} profile`, labels, runtime, train: { ...spec.train, steps: COPY_STEPS } };
}

export interface ProfilePart {
  name: string;
  time_s: number;
  /** Null for what happens outside of steps. */
  share: number | null;
}

export interface ProfileOperation {
  name: string;
  type: string;
  phase: string;
  layer: string | null;
  dtype: string;
  computed_in: string;
  calls: number;
  total_s: number;
  self_s: number;
  average_s: number;
  eligible: boolean;
  in_16_bit: boolean;
  tensor_cores: boolean | null;
  reason: string | null;
}

export interface ProfileKernel {
  name: string;
  dtype: string | null;
  tensor_cores: boolean;
  calls: number;
  total_s: number;
  average_s: number;
  max_s: number;
}

export interface ProfileReport {
  policy: string;
  engine: string;
  device: { kind: string; name: string };
  first_step: number;
  steps: number;
  step_s: number;
  busy_s: number;
  sixteen_bit: Record<"of_step" | "of_matrices" | "of_promised" | "tensor_cores" | "casts", number | null>;
  phases: (Omit<ProfilePart, "name"> & { phase: string })[];
  dtypes: (Omit<ProfilePart, "name"> & { dtype: string })[];
  layers: { layer: string; time_s: number; forward_s: number; backward_s: number; in_16_bit: number | null }[];
  operations: ProfileOperation[];
  operations_left_out: number;
  kernels: ProfileKernel[];
  findings: { reason: string; message: string; share: number; operations: string[] }[];
}

export interface Profile {
  report: Artifact;
  /** The files of the same profile: the report and the traces. */
  files: Artifact[];
}

const REPORT = "report.json";

/** The profiles among the files of a job, the newest first. */
export function profilesOf(files: readonly Artifact[]): Profile[] {
  const own = files.filter((file) => file.kind === "profile");
  return own
    .filter((file) => file.path.endsWith(`/${REPORT}`))
    .map((report) => {
      const folder = report.path.slice(0, -REPORT.length);
      return { report, files: own.filter((file) => file.path.startsWith(folder)) };
    })
    .reverse();
}

/** A time with three digits and its unit. */
export function shortTime(seconds: number): string {
  const units: [string, number][] = [["s", 1], ["ms", 1e3], ["µs", 1e6]];
  for (const [unit, factor] of units) if (seconds * factor >= 1) return `${Number((seconds * factor).toPrecision(3))} ${unit}`;
  return `${Math.round(seconds * 1e9)} ns`;
}

/** The name of an operation without the scopes of the loop and the phase. */
export function shortName(name: string): string {
  const parts = name.split("/");
  const kept = parts.filter((part) => !["while", "body", "gradient_tape"].includes(part) && !part.startsWith("phase."));
  return (parts.includes("gradient_tape") ? "grad: " : "") + kept.join("/");
}
