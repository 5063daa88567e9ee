// Each time that a worker took the job.
import { usePoll } from "../../api/poll.ts";
import type { AttemptList } from "../../api/types.ts";
import { Empty, Standing } from "../../parts/standing.tsx";
import { duration, moment, whole } from "../../words/format.ts";
import type { TabProps } from "./page.tsx";

const HEADINGS = ["Attempt", "Outcome", "Worker", "Waited", "First step", "Started", "Took"];

export function Attempts({ job, everyMs }: TabProps) {
  const attempts = usePoll<AttemptList>(`/jobs/${job.id}/attempts`, everyMs);
  return (
    <Standing what="attempts" of={attempts}>
      {({ items }) =>
        items.length === 0 ? (
          <Empty title="No attempt yet">{job.waiting ?? "No worker has taken the job."}</Empty>
        ) : (
          <div class="scroll" tabIndex={0} role="region" aria-label="Attempts">
            <table class="table">
              <thead><tr>{HEADINGS.map((heading) => <th key={heading} scope="col">{heading}</th>)}</tr></thead>
              <tbody>
                {items.map((attempt) => (
                  <tr key={attempt.attempt}>
                    <td>{attempt.attempt}</td>
                    <td>{attempt.outcome ?? "under way"}{attempt.message && <div class="muted break">{attempt.message}</div>}</td>
                    <td>{attempt.worker_id}</td>
                    <td>{duration(attempt.waited_s)}</td>
                    <td>{whole(attempt.first_step)}</td>
                    <td>{moment(attempt.started_at)}</td>
                    <td>{duration(tookS(attempt.started_at, attempt.finished_at))}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )
      }
    </Standing>
  );
}

function tookS(from: string, to: string | null): number | null {
  return to === null ? null : (Date.parse(to) - Date.parse(from)) / 1000;
}
