// What a job trains on: rows, columns and classes; nothing before its first step.
import { queryString } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import type { EventPage, JsonObject } from "../../api/types.ts";
import { dataSummary, type DataTable } from "../../display/data-summary.ts";
import { integer } from "../../display/format.ts";
import { isTracked } from "../../display/jobs.ts";
import type { TabProps } from "./tab-props.ts";

export function DataSummary({ job, intervalMs, pulse }: Pick<TabProps, "job" | "intervalMs" | "pulse">) {
  const query = queryString({ type: "started", limit: 100 });
  const events = usePoll<EventPage>(isTracked(job) ? null : `/jobs/${job.id}/events?${query}`, intervalMs, pulse);
  const summary = dataSummary(events.data?.items.at(-1)?.data as JsonObject | undefined);
  if (summary === null) return null;
  if (summary.tables.length === 0) return <section class="callout" aria-label="Data">{summary.sentence}</section>;
  return (
    <section class="callout" aria-label="Data">
      <details>
        <summary>{summary.sentence}</summary>
        {summary.tables.map((table) => <Table key={table.title} {...table} />)}
      </details>
    </section>
  );
}

function Table({ title, heads, rows, more }: DataTable) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={title}>
      <h3>{title}</h3>
      <table class="table" aria-label={title}>
        <thead><tr>{heads.map((head) => <th key={head} scope="col">{head}</th>)}</tr></thead>
        <tbody>{rows.map((cells, index) => <tr key={index}>{cells.map((cell, column) => <td key={column} class="break">{cell}</td>)}</tr>)}</tbody>
      </table>
      {more > 0 && <p class="muted">and {integer(more)} more</p>}
    </div>
  );
}
