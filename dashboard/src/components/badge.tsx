// A state as a coloured badge, and the labels of a job.
import type { State } from "../api/types.ts";

export function Badge({ state }: { state: State | string }) {
  return <span class={`badge ${state}`}><i aria-hidden="true" />{state}</span>;
}

export function Labels({ labels }: { labels: Record<string, string> }) {
  const pairs = Object.entries(labels);
  if (pairs.length === 0) return null;
  return (
    <span class="labels">
      {pairs.map(([key, value]) => (
        <a key={key} class="label" title={`Jobs labelled ${key}=${value}`} href={`#/jobs?label=${encodeURIComponent(`${key}=${value}`)}`}>
          {key}{value && <>={value}</>}
        </a>
      ))}
    </span>
  );
}
