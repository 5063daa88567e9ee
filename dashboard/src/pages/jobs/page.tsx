// The list of jobs.
import { useState } from "preact/hooks";
import { routeHref, type Route } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import type { JobPage, ListedJob } from "../../api/types.ts";
import { EmptyState, LoadState } from "../../components/load-state.tsx";
import { useCanEditJobs } from "../../session.ts";
import { MAX_COMPARED } from "../compare/query.ts";
import { FilterBar } from "./filter-bar.tsx";
import { filtersHref, parseFilters, hasFilters, jobsPath, listedMetric, type Filters } from "./filters.ts";
import { JobTable } from "./table.tsx";

export function JobsPage({ route }: { route: Route }) {
  const filters = parseFilters(route.query);
  const jobs = usePoll<JobPage>(jobsPath(filters), 2000);
  const [selected, setSelected] = useState<readonly string[]>([]);
  const choose = (id: string, on: boolean) =>
    setSelected((ids) => (on ? [...ids, id].slice(0, MAX_COMPARED) : ids.filter((one) => one !== id)));
  return (
    <>
      <div class="row spread">
        <h1>Jobs</h1>
        <div class="row">
          {selected.length > 0 && <Selection ids={selected} onClear={() => setSelected([])} />}
          {useCanEditJobs() && <a class="button primary" href="#/submit">Submit a job</a>}
        </div>
      </div>
      <FilterBar filters={filters} metrics={metricsOf(jobs.data?.items ?? [])} />
      <LoadState what="list of jobs" of={jobs}>
        {(page) =>
          page.items.length === 0 ? (
            <NoJobs filters={filters} />
          ) : (
            <div class={jobs.stale ? "stale" : ""} aria-busy={jobs.stale}>
              <JobTable jobs={page.items} filters={filters} metric={listedMetric(filters)} selected={selected} onChoose={choose} onDone={jobs.refresh} />
              {!jobs.stale && <Pages filters={filters} next={page.next_cursor} />}
            </div>
          )
        }
      </LoadState>
    </>
  );
}

/** The metrics of the listed jobs. */
function metricsOf(jobs: readonly ListedJob[]): string[] {
  return [...new Set(jobs.flatMap((job) => Object.keys(job.metrics ?? {})))];
}

function Selection({ ids, onClear }: { ids: readonly string[]; onClear: () => void }) {
  return (
    <>
      <button type="button" class="button quiet" onClick={onClear}>Clear selection</button>
      {ids.length > 1 ? (
        <a class="button" href={routeHref(["compare"], { jobs: ids.join(",") })}>Compare {ids.length} jobs</a>
      ) : (
        <span class="muted">Select another job to compare</span>
      )}
    </>
  );
}

function Pages({ filters, next }: { filters: Filters; next: string | null }) {
  if (!filters.cursor && next === null) return null;
  return (
    <nav class="row end" aria-label="Pages of the list">
      {filters.cursor && <a class="button" href={filtersHref(filters)}>First page</a>}
      {next !== null && <a class="button" href={filtersHref(filters, { cursor: next })}>Next page</a>}
    </nav>
  );
}

function NoJobs({ filters }: { filters: Filters }) {
  const canEditJobs = useCanEditJobs();
  if (hasFilters(filters) || filters.cursor) {
    return <EmptyState title="No matching jobs">Remove a filter, or <a href="#/jobs">show all jobs</a>.</EmptyState>;
  }
  return (
    <EmptyState title="No jobs yet">
      {canEditJobs ? <><a href="#/submit">Submit a job here</a>, or </> : "Your token is read-only. Members submit jobs "}
      with <code>ampctl submit job.yaml</code>.
    </EmptyState>
  );
}
