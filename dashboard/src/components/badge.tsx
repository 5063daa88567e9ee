// A state as a coloured badge, and the labels of a job.
import type { State } from "../api/types.ts";

/** `text` is what it says, if that is not the state itself. */
export function Badge({ state, text = state }: { state: State | string; text?: string }) {
  return <span class={`badge ${state}`}><i aria-hidden="true" />{text}</span>;
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
