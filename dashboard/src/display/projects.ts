// What a project uses, and its quotas of it.
import type { Project } from "../api/types.ts";

export interface Use {
  title: string;
  used: number;
  /** null: no limit. */
  quota: number | null;
  isBytes?: boolean;
  digits?: number;
}

/** What a project uses of each quota, in the order of the columns; of no project zeros. */
export function usesOf(project: Project | null): Use[] {
  return [
    { title: "Artifacts", used: project?.artifact_bytes ?? 0, quota: project?.max_artifact_bytes ?? null, isBytes: true },
    { title: "Datasets and files", used: project?.dataset_bytes ?? 0, quota: project?.max_dataset_bytes ?? null, isBytes: true },
    { title: "Queued", used: project?.queued ?? 0, quota: project?.max_queued ?? null },
    { title: "Running", used: project?.running ?? 0, quota: project?.max_running ?? null },
    { title: "Devices", used: project?.devices ?? 0, quota: project?.max_devices ?? null },
    { title: "Device hours in 30 days", used: project?.device_hours ?? 0, quota: project?.max_device_hours ?? null, digits: 1 },
  ];
}

/** The used share of a quota, from 0 to 1; null without a quota. */
export function usedShare({ used, quota }: Use): number | null {
  if (quota === null) return null;
  return quota === 0 ? 1 : Math.min(used / quota, 1);
}
