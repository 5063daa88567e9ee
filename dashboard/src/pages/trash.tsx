// The page of the trash: deleted jobs, until when they can be restored, and a button that does it.
import { routeHref, type Route } from "../router.ts";
import { usePoll } from "../api/use-poll.ts";
import { sendJson } from "../api/request.ts";
import type { JobPage, ListedJob } from "../api/types.ts";
import { runAndNotify } from "../notifications.ts";
import { Badge } from "../components/badge.tsx";
import { ConfirmButton } from "../components/buttons.tsx";
import { EmptyState, LoadState } from "../components/load-state.tsx";
import { useCanEditJobs } from "../session.ts";
import { dateTime } from "../display/format.ts";

const HEADINGS = ["Name", "Id", "State", "Project", "Created", "Deleted for good"];
const LISTED = 100;

export function TrashPage({ route }: { route: Route }) {
  const cursor = route.query.get("cursor");
  const jobs = usePoll<JobPage>(`/jobs?trash=true&limit=${LISTED}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`, 10_000);
  return (
    <>
      <h1>Trash</h1>
      <p class="muted">Deleted jobs. Until the time in the last column a job can be restored with all that it had.</p>
      <LoadState what="trash" of={jobs}>
        {({ items, next_cursor }) => (
          <>
            {items.length === 0
              ? <EmptyState title="The trash is empty">Jobs that you delete can be restored here for a time.</EmptyState>
              : <TrashTable jobs={items} onDone={jobs.refresh} />}
            {next_cursor && <a class="button" href={routeHref(["trash"], { cursor: next_cursor })}>Next page</a>}
          </>
        )}
      </LoadState>
    </>
  );
}

function TrashTable({ jobs, onDone }: { jobs: readonly ListedJob[]; onDone: () => void }) {
  const canEdit = useCanEditJobs();
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Deleted jobs">
      <table class="table" aria-label="Trash">
        <thead><tr>{HEADINGS.map((heading) => <th key={heading} scope="col">{heading}</th>)}<th scope="col"><span class="hidden">Actions</span></th></tr></thead>
        <tbody>
          {jobs.map((job) => (
            <tr key={job.id}>
              <td class="break">{job.name}</td>
              <td><code>{job.id}</code></td>
              <td><Badge state={job.state} /></td>
              <td>{job.project}</td>
              <td>{dateTime(job.created_at)}</td>
              <td>{dateTime(job.purge_at)}</td>
              <td class="actions">{canEdit && <Actions job={job} onDone={onDone} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Actions({ job, onDone }: { job: ListedJob; onDone: () => void }) {
  const restore = async () => {
    await runAndNotify(`${job.name} was restored.`, () => sendJson("POST", `/jobs/${job.id}/restore`));
    onDone();
  };
  const purge = async () => {
    await runAndNotify(`${job.name} was deleted for good.`, () => sendJson("DELETE", `/jobs/${job.id}?permanent=true`));
    onDone();
  };
  return (
    <div class="row">
      <button type="button" class="button small" aria-label={`Restore ${job.name}`} onClick={() => void restore()}>Restore</button>
      <ConfirmButton label="Delete for good" ariaLabel={`Delete ${job.name} for good`} danger question={`Delete ${job.name} for good?`} onConfirm={() => void purge()}>
        Its steps, events, log and files are deleted at once. This cannot be undone.
      </ConfirmButton>
    </div>
  );
}
