// What a job starts from, and which weights of its model matched; nothing for other jobs.
import { queryString, routeHref } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import type { EventPage, JsonObject } from "../../api/types.ts";
import { weightsGroups, weightsSource } from "../../display/initial-weights.ts";
import type { TabProps } from "./tab-props.ts";

export function InitialWeights({ job, intervalMs, pulse }: Pick<TabProps, "job" | "intervalMs" | "pulse">) {
  const source = weightsSource(job);
  const query = queryString({ type: "weights_loaded", limit: 100 });
  const events = usePoll<EventPage>(source && `/jobs/${job.id}/events?${query}`, intervalMs, pulse);
  if (source === null) return null;
  const report = events.data?.items.at(-1)?.data as JsonObject | undefined;
  return (
    <section class="callout" aria-label="Initial weights">
      Starts from the weights of {source.job === null ? <code>{source.text}</code> : <a href={routeHref(["jobs", source.job])}>{source.text}</a>}.
      {report && (
        <details>
          <summary>{String(report["sentence"] ?? "")}</summary>
          {weightsGroups(report).map(({ title, names }) => (
            <div key={title}>
              <h3>{title}</h3>
              <ul>{names.map((name) => <li key={name}><code>{name}</code></li>)}</ul>
            </div>
          ))}
        </details>
      )}
    </section>
  );
}
