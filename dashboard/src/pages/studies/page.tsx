// The pages of studies: the list, and one study with its progress and its answer.
import { useState } from "preact/hooks";
import { routeHref, type Route } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import type { StudyFields, StudyPage } from "../../api/types.ts";
import { Badge } from "../../components/badge.tsx";
import { EmptyState, LoadState } from "../../components/load-state.tsx";
import { dateTime, integer } from "../../display/format.ts";
import { StudyDetails } from "./details.tsx";

export function StudiesPage({ route }: { route: Route }) {
  const [, id] = route.path;
  return id === undefined ? <StudyIndex /> : <StudyDetails key={id} id={id} />;
}

function StudyIndex() {
  const [cursors, setCursors] = useState<readonly string[]>([]);
  const cursor = cursors.at(-1);
  const studies = usePoll<StudyPage>(`/studies${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ""}`, 5000);
  return (
    <>
      <h1>Studies</h1>
      <LoadState what="studies" of={studies}>
        {({ items, next_cursor }) => (
          <>
            <StudyTable studies={items} />
            <div class="row">
              {cursors.length > 0 && <button type="button" class="button" onClick={() => setCursors(cursors.slice(0, -1))}>Newer</button>}
              {next_cursor !== null && <button type="button" class="button" disabled={studies.stale} onClick={() => setCursors([...cursors, next_cursor])}>Older</button>}
            </div>
          </>
        )}
      </LoadState>
    </>
  );
}

function StudyTable({ studies }: { studies: readonly StudyFields[] }) {
  if (studies.length === 0) {
    return (
      <EmptyState title="No studies yet">
        A study asks a question of several jobs. Open a job and choose “Which policy?”, “Which layers?” or “How large a batch?”, or run <code>ampctl study precision job.yaml</code>.
      </EmptyState>
    );
  }
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="All studies">
      <table class="table" aria-label="Studies">
        <thead>
          <tr>
            <th scope="col">State</th><th scope="col">Name</th><th scope="col">Kind</th>
            <th scope="col" class="number">Jobs ended</th><th scope="col">Created</th><th scope="col">By</th>
          </tr>
        </thead>
        <tbody>
          {studies.map((study) => (
            <tr key={study.id}>
              <td><Badge state={study.state} /></td>
              <td><a class="name" href={routeHref(["studies", study.id])}>{study.name}</a></td>
              <td>{study.kind}</td>
              <td class="number">{integer(study.jobs_ended)} of {integer(study.jobs_planned)}</td>
              <td class="when">{dateTime(study.created_at)}</td>
              <td>{study.created_by}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
