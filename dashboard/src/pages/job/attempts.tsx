// The tab with the attempts of a job, and with what a batch system was asked for.
import { Fragment } from "preact";
import { queryString } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import type { AllocationList, Attempt, AttemptList, Event, EventPage } from "../../api/types.ts";
import { EmptyState, LoadState } from "../../components/load-state.tsx";
import { duration, dateTime, integer } from "../../display/format.ts";
import { isTracked } from "../../display/jobs.ts";
import { AllocationsTable } from "./allocations-table.tsx";
import { RanksTable } from "./ranks-table.tsx";
import type { TabProps } from "./tab-props.ts";

const HEADINGS = ["Attempt", "Outcome", "Worker", "Wait", "First step", "Started", "Duration"];
/** The last events with the times of ranks. */
const RANK_TIMES = queryString({ type: "ranks", before: 2 ** 53, limit: 100 });

export function Attempts({ job, intervalMs, pulse }: TabProps) {
  const attempts = usePoll<AttemptList>(`/jobs/${job.id}/attempts`, intervalMs, pulse);
  const events = usePoll<EventPage>(job.ranks > 1 ? `/jobs/${job.id}/events?${RANK_TIMES}` : null, intervalMs, pulse);
  const allocations = usePoll<AllocationList>(isTracked(job) ? null : `/jobs/${job.id}/allocations`, intervalMs, pulse);
  return (
    <LoadState what="attempts" of={attempts}>
      {({ items }) => (
        <div class="stack">
          {items.length === 0
            ? <EmptyState title="No attempts yet">{job.waiting ?? "No worker has started this job."}</EmptyState>
            : <AttemptsTable attempts={items} times={events.data?.items ?? []} />}
          <AllocationsTable allocations={allocations.data?.items ?? []} />
        </div>
      )}
    </LoadState>
  );
}

function AttemptsTable({ attempts, times }: { attempts: readonly Attempt[]; times: readonly Event[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Attempts">
      <table class="table">
        <thead><tr>{HEADINGS.map((heading) => <th key={heading} scope="col">{heading}</th>)}</tr></thead>
        <tbody>
          {attempts.map((attempt) => (
            <Fragment key={attempt.attempt}>
              <tr>
                <td>{attempt.attempt}</td>
                <td>{attempt.outcome ?? "running"}{attempt.message && <div class="muted break">{attempt.message}</div>}</td>
                <td>{attempt.worker_id ?? "–"}</td>
                <td>{duration(attempt.waited_s)}</td>
                <td>{integer(attempt.first_step)}</td>
                <td>{dateTime(attempt.started_at)}</td>
                <td>{duration(tookS(attempt.started_at, attempt.finished_at))}</td>
              </tr>
              {attempt.ranks.length > 0 && (
                <tr><td /><td colSpan={HEADINGS.length - 1}><RanksTable attempt={attempt} event={times.findLast((one) => one.attempt === attempt.attempt)} /></td></tr>
              )}
            </Fragment>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function tookS(from: string, to: string | null): number | null {
  return to === null ? null : (Date.parse(to) - Date.parse(from)) / 1000;
}
