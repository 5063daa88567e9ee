// Which pictures of a run are shown at a step.
import type { JobImage } from "../api/types.ts";

/** The steps that have pictures, ascending. */
export function imageSteps(images: readonly JobImage[]): number[] {
  return [...new Set(images.map((image) => image.step ?? 0))].sort((one, two) => one - two);
}

/** The pictures of each name at a step: those of the last step up to it that has any of this name. */
export function imagesAt(images: readonly JobImage[], step: number): [name: string, images: JobImage[]][] {
  const shown = new Map<string, JobImage[]>();
  for (const name of [...new Set(images.map((image) => image.name))].sort()) {
    const earlier = images.filter((image) => image.name === name && (image.step ?? 0) <= step);
    const last = Math.max(...earlier.map((image) => image.step ?? 0));
    shown.set(name, earlier.filter((image) => (image.step ?? 0) === last));
  }
  return [...shown].filter(([, found]) => found.length > 0);
}
