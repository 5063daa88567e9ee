// One model: its versions, the history of its aliases, and the selected version.
import { routeHref } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import { sendJson } from "../../api/request.ts";
import type { AliasChangePage, Model, ModelVersion, ModelVersionPage } from "../../api/types.ts";
import { runAndNotify } from "../../notifications.ts";
import { ConfirmButton } from "../../components/buttons.tsx";
import { LoadState } from "../../components/load-state.tsx";
import { useCanEditJobs } from "../../session.ts";
import { dateTime } from "../../display/format.ts";
import { changeText, metricsText, referenceOf } from "../../display/models.ts";
import { VersionContent } from "./version.tsx";

export function ModelDetails({ name, version }: { name: string; version: string | null }) {
  const root = `/registered-models/${encodeURIComponent(name)}`;
  const model = usePoll<Model>(root, 10_000);
  const versions = usePoll<ModelVersionPage>(`${root}/versions?limit=1000`, 10_000);
  return (
    <>
      <h1 class="break"><a href="#/models">Models</a> / {name}</h1>
      <LoadState what="model" of={model}>{(data) => <Notes model={data} />}</LoadState>
      <LoadState what="versions" of={versions}>
        {({ items }) => <Versions root={root} versions={items} selected={version ?? String(items[0]?.number ?? "latest")} onDone={versions.refresh} />}
      </LoadState>
      <History root={root} />
    </>
  );
}

function Notes({ model }: { model: Model }) {
  const tags = Object.entries(model.tags);
  return (
    <>
      {model.note !== null && <p class="break">{model.note}</p>}
      {tags.length > 0 && <p class="muted break">{tags.map(([key, value]) => `${key}=${value}`).join(", ")}</p>}
      {Object.entries(model.gates).map(([alias, assertions]) => (
        <p key={alias} class="muted break">A promotion to {alias} needs <code>{assertions.join("; ")}</code></p>
      ))}
    </>
  );
}

interface VersionsProps {
  root: string;
  versions: readonly ModelVersion[];
  selected: string;
  onDone: () => void;
}

function Versions({ root, versions, selected, onDone }: VersionsProps) {
  const version = usePoll<ModelVersion>(`${root}/versions/${encodeURIComponent(selected)}`, 30_000);
  const current = version.data;
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="All versions">
        <table class="table" aria-label="Versions">
          <thead>
            <tr>
              <th scope="col">Version</th><th scope="col">Aliases</th><th scope="col">Metrics</th><th scope="col">Job</th>
              <th scope="col">Registered</th><th scope="col">By</th><th scope="col"><span class="hidden">Actions</span></th>
            </tr>
          </thead>
          <tbody>
            {versions.map((row) => <VersionRow key={row.number} root={root} version={row} selected={current ?? null} onDone={onDone} />)}
          </tbody>
        </table>
      </div>
      <LoadState what="version" of={version}>{(data) => <VersionContent root={root} version={data} />}</LoadState>
    </>
  );
}

interface VersionRowProps {
  root: string;
  version: ModelVersion;
  selected: ModelVersion | null;
  onDone: () => void;
}

function VersionRow({ root, version, selected, onDone }: VersionRowProps) {
  const canEdit = useCanEditJobs();
  const reference = referenceOf(version);
  const isSelected = selected?.number === version.number;
  const remove = async () => {
    if (await runAndNotify(`${reference} was deleted.`, () => sendJson("DELETE", `${root}/versions/${version.number}`))) onDone();
  };
  const canCompare = !isSelected && selected !== null && selected.job_id !== null && version.job_id !== null && selected.job_id !== version.job_id;
  return (
    <tr>
      <td><a href={routeHref(["models", version.model, String(version.number)])} aria-current={isSelected ? "true" : undefined}>{isSelected ? <strong>{reference}</strong> : reference}</a></td>
      <td>{version.aliases.join(", ")}</td>
      <td>{metricsText(version)}</td>
      <td>{version.job_id !== null && <a href={routeHref(["jobs", version.job_id])}>{version.job_name}</a>}</td>
      <td class="muted">{dateTime(version.created_at)}</td>
      <td>{version.created_by}</td>
      <td class="actions">
        {canCompare && <a class="button" href={routeHref(["compare"], { jobs: `${selected.job_id},${version.job_id}` })} aria-label={`Compare ${reference} with ${referenceOf(selected)}`}>Compare</a>}
        {canEdit && version.aliases.length === 0 && (
          <ConfirmButton label="Delete" ariaLabel={`Delete ${reference}`} danger question={`Delete ${reference}?`} onConfirm={() => void remove()}>
            While its job exists, <code>ampctl model undelete {reference}</code> restores it.
          </ConfirmButton>
        )}
      </td>
    </tr>
  );
}

function History({ root }: { root: string }) {
  const history = usePoll<AliasChangePage>(`${root}/history?limit=50`, 30_000);
  return (
    <section class="stack" aria-label="History of aliases">
      <h2>History of aliases</h2>
      <LoadState what="history" of={history}>
        {({ items }) => items.length === 0 ? <p class="muted">No alias was ever set.</p> : (
          <ul>
            {items.map((change) => (
              <li key={change.id} class="break">
                {dateTime(change.created_at)}, {change.created_by}: {changeText(change)}{change.reason !== null && ` (${change.reason})`}
                {(change.checks ?? []).map((check, index) => <p key={index} class="muted">{check.outcome}: {check.message}</p>)}
              </li>
            ))}
          </ul>
        )}
      </LoadState>
    </section>
  );
}
