// All jobs, live.
import { useState } from "preact/hooks";
import type { Place } from "../../address.ts";
import { fragmentOf } from "../../address.ts";
import { usePoll } from "../../api/poll.ts";
import type { JobPage } from "../../api/types.ts";
import { Empty, Standing } from "../../parts/standing.tsx";
import { useMaySteer } from "../../session.ts";
import { FilterBar } from "./filter-bar.tsx";
import { addressOf, filtersOf, isNarrowed, listingOf, type Filters } from "./filters.ts";
import { JobTable } from "./table.tsx";

export const MOST_COMPARED = 10;

export function JobsPage({ place }: { place: Place }) {
  const filters = filtersOf(place.query);
  const jobs = usePoll<JobPage>(listingOf(filters), 2000);
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const choose = (id: string, on: boolean) =>
    setChosen((ids) => (on ? [...ids, id].slice(0, MOST_COMPARED) : ids.filter((one) => one !== id)));
  return (
    <>
      <div class="row spread">
        <h1>Jobs</h1>
        <div class="row">
          {chosen.length > 0 && <Chosen ids={chosen} onClear={() => setChosen([])} />}
          {useMaySteer() && <a class="button primary" href="#/submit">Submit a job</a>}
        </div>
      </div>
      <FilterBar filters={filters} />
      <Standing what="list of jobs" of={jobs}>
        {(page) =>
          page.items.length === 0 ? (
            <NoJobs filters={filters} />
          ) : (
            <div class={jobs.stale ? "stale" : ""} aria-busy={jobs.stale}>
              <JobTable jobs={page.items} chosen={chosen} onChoose={choose} onDone={jobs.refresh} />
              <Pages filters={filters} next={page.next_cursor} />
            </div>
          )
        }
      </Standing>
    </>
  );
}

function Chosen({ ids, onClear }: { ids: readonly string[]; onClear: () => void }) {
  return (
    <>
      <button type="button" class="button quiet" onClick={onClear}>Clear the choice</button>
      {ids.length > 1 ? (
        <a class="button" href={fragmentOf(["compare"], { jobs: ids.join(",") })}>Compare {ids.length} jobs</a>
      ) : (
        <span class="muted">Choose another one to compare</span>
      )}
    </>
  );
}

function Pages({ filters, next }: { filters: Filters; next: string | null }) {
  if (!filters.cursor && next === null) return null;
  return (
    <nav class="row end" aria-label="Pages of the list">
      {filters.cursor && <a class="button" href={addressOf(filters)}>First page</a>}
      {next !== null && <a class="button" href={addressOf(filters, { cursor: next })}>Next page</a>}
    </nav>
  );
}

function NoJobs({ filters }: { filters: Filters }) {
  const maySteer = useMaySteer();
  if (isNarrowed(filters) || filters.cursor) {
    return <Empty title="No job is like that">Take a filter away, or <a href="#/jobs">show all jobs</a>.</Empty>;
  }
  return (
    <Empty title="No jobs yet">
      {maySteer ? <><a href="#/submit">Submit one here</a>, or </> : "Your token may only read. Others post jobs "}
      with <code>ampctl submit job.yaml</code>.
    </Empty>
  );
}
