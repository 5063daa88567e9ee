// One dataset: its versions, and the columns and preview of the selected one.
import { currentPage, currentRoute, go, goFrom, routeHref } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import { API_ROOT, sendJson } from "../../api/request.ts";
import type { DatasetVersion, DatasetVersionPage, JsonObject, ListedDatasetVersion } from "../../api/types.ts";
import { runAndNotify } from "../../notifications.ts";
import { ConfirmButton, CopyButton } from "../../components/buttons.tsx";
import { LoadState } from "../../components/load-state.tsx";
import { useCanEditJobs } from "../../session.ts";
import { bytes, dateTime, integer } from "../../display/format.ts";
import { distinctText, optionsText, splitsText } from "../../display/dataset-options.ts";
import { cellText, pictureUrls, previewTable } from "../../display/preview.ts";
import { UploadForm } from "./upload-form.tsx";

export function DatasetDetails({ name, number }: { name: string; number: string | null }) {
  const root = `/datasets/${encodeURIComponent(name)}`;
  const versions = usePoll<DatasetVersionPage>(`${root}/versions?limit=1000`, 10_000);
  const canEdit = useCanEditJobs();
  const remove = async () => {
    const page = currentPage();
    if (await runAndNotify(`${name} was deleted.`, () => sendJson("DELETE", root))) goFrom(page, "#/datasets");
  };
  return (
    <>
      <div class="row spread">
        <h1 class="break"><a href="#/datasets">Datasets</a> / {name}</h1>
        {canEdit && (
          <ConfirmButton label="Delete dataset" danger question={`Delete every version of ${name}?`} onConfirm={() => void remove()}>
            Jobs that have ended keep their results, but cannot train on this data again. This cannot be undone.
          </ConfirmButton>
        )}
      </div>
      {canEdit && <UploadForm dataset={name} onDone={versions.refresh} />}
      <LoadState what="dataset" of={versions}>
        {({ items }) => <Versions root={root} name={name} versions={items} selected={Number(number ?? items[0]?.number)} onDone={versions.refresh} />}
      </LoadState>
    </>
  );
}

interface VersionsProps {
  root: string;
  name: string;
  versions: readonly ListedDatasetVersion[];
  selected: number;
  onDone: () => void;
}

function Versions({ root, name, versions, selected, onDone }: VersionsProps) {
  const version = usePoll<DatasetVersion>(`${root}/versions/${selected}`, 60_000);
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="All versions">
        <table class="table" aria-label="Versions">
          <thead>
            <tr>
              <th scope="col">Version</th><th scope="col">File</th><th scope="col">Kind</th>
              <th scope="col" class="number">Rows</th><th scope="col" class="number">Size</th>
              <th scope="col">Uploaded</th><th scope="col">By</th><th scope="col"><span class="hidden">Actions</span></th>
            </tr>
          </thead>
          <tbody>
            {versions.map((one) => (
              <VersionRow key={one.number} root={root} version={one} isSelected={one.number === selected} onDone={() => {
                onDone();
                if (currentRoute().path[2] === String(one.number)) go(routeHref(["datasets", name]), true);
              }} />
            ))}
          </tbody>
        </table>
      </div>
      <LoadState what="version" of={version}>{(data) => <VersionContent version={data} />}</LoadState>
    </>
  );
}

function VersionRow({ root, version, isSelected, onDone }: { root: string; version: ListedDatasetVersion; isSelected: boolean; onDone: () => void }) {
  const canEdit = useCanEditJobs();
  const reference = `${version.dataset}@${version.number}`;
  const path = `${root}/versions/${version.number}`;
  const remove = async () => {
    if (await runAndNotify(`${reference} was deleted.`, () => sendJson("DELETE", path))) onDone();
  };
  return (
    <tr>
      <td><a href={routeHref(["datasets", version.dataset, String(version.number)])} aria-current={isSelected ? "true" : undefined}>{isSelected ? <strong>{reference}</strong> : reference}</a></td>
      <td><a download href={`${API_ROOT}${path}/content`}>{version.file_name}</a></td>
      <td>{version.kind ?? version.state}</td>
      <td class="number">{integer(version.rows)}</td>
      <td class="number">{bytes(version.size_bytes)}</td>
      <td class="muted">{dateTime(version.created_at)}</td>
      <td>{version.created_by}</td>
      <td class="actions">
        {canEdit && (
          <ConfirmButton label="Delete" ariaLabel={`Delete ${reference}`} danger question={`Delete ${reference}?`} onConfirm={() => void remove()}>
            Jobs that have ended keep their results, but cannot train on this version again. This cannot be undone.
          </ConfirmButton>
        )}
      </td>
    </tr>
  );
}

function VersionContent({ version }: { version: DatasetVersion }) {
  const columns = (version.columns ?? []) as JsonObject[];
  const { rows = [], pictures = [] } = (version.preview ?? {}) as { rows?: JsonObject[]; pictures?: JsonObject[] };
  const reference = `${version.dataset}@${version.number}`;
  const options = optionsText(version.options as JsonObject | null | undefined);
  const splits = splitsText(version.splits);
  const leftOut = (version.left_out ?? []) as { name: string; reason: string }[];
  return (
    <section class="stack" aria-label={`Content of ${reference}`}>
      <div class="row">
        <h2>{reference}</h2>
        <CopyButton label="Copy reference" text={reference} />
      </div>
      <p class="muted">SHA-256 <code class="break">{version.sha256}</code></p>
      {options !== "" && <p class="muted">Read with {options}</p>}
      {splits !== "" && <p class="muted">Splits: {splits}</p>}
      {leftOut.length > 0 && <p class="muted break">Left out: {leftOut.map(({ name, reason }) => `${name} (${reason})`).join(", ")}</p>}
      {version.message !== null && <p class={`callout ${version.state === "invalid" ? "error" : "warning"}`}>{version.message}</p>}
      {version.state === "undescribed" && version.message === null && <p class="callout info">No reader knows this kind of file, so its content is not shown. Jobs can use it.</p>}
      {columns.length > 0 && <Columns columns={columns} />}
      {rows.length > 0 && <Rows rows={rows} columns={columns} />}
      <Pictures pictures={pictures} />
    </section>
  );
}

/** The rows of a column without a value, or with NaN; undefined in the description of an older server. */
function withoutValue({ missing, nan }: JsonObject): JsonObject[string] | undefined {
  return typeof missing === "number" && typeof nan === "number" ? missing + nan : missing;
}

function Columns({ columns }: { columns: readonly JsonObject[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Columns">
      <table class="table" aria-label="Schema">
        <thead><tr><th scope="col">Column</th><th scope="col">Type</th><th scope="col">Shape</th><th scope="col" class="number">Missing</th><th scope="col" class="number">Different</th><th scope="col">Classes</th></tr></thead>
        <tbody>
          {columns.map((column, index) => (
            <tr key={index}>
              <td class="break">{cellText(column["name"])}</td>
              <td>{cellText(column["dtype"])}</td>
              <td>{cellText(column["shape"])}</td>
              <td class="number">{cellText(withoutValue(column))}</td>
              <td class="number">{distinctText(column["statistics"])}</td>
              <td class="break">{cellText(column["classes"])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Rows({ rows, columns }: { rows: readonly JsonObject[]; columns: readonly JsonObject[] }) {
  const table = previewTable(rows, columns);
  return (
    <>
      <h2>First rows</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="First rows">
        <table class="table" aria-label="Preview">
          <thead><tr>{table.names.map((name, index) => <th key={index} scope="col">{name}</th>)}</tr></thead>
          <tbody>
            {table.rows.map((row, index) => <tr key={index}>{row.map((cell, column) => <td key={column}>{cell}</td>)}</tr>)}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Pictures({ pictures }: { pictures: readonly JsonObject[] }) {
  const urls = pictureUrls(pictures);
  if (urls.length === 0) return null;
  return (
    <div class="pictures">
      {urls.map(({ url, caption }, index) => (
        <figure key={index}><img src={url} alt={caption || `Example ${index + 1}`} /><figcaption>{caption}</figcaption></figure>
      ))}
    </div>
  );
}
