// The pages of datasets: the list with the upload form, a dataset with its versions.
import { routeHref, type Route } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import type { Dataset, DatasetPage } from "../../api/types.ts";
import { EmptyState, LoadState } from "../../components/load-state.tsx";
import { useCanEditJobs } from "../../session.ts";
import { bytes, dateTime, integer } from "../../display/format.ts";
import { DatasetDetails } from "./details.tsx";
import { UploadForm } from "./upload-form.tsx";

const PAGE_SIZE = 1000;

export function DatasetsPage({ route }: { route: Route }) {
  const [, name, number] = route.path;
  return name === undefined ? <DatasetIndex /> : <DatasetDetails key={name} name={name} number={number ?? null} />;
}

function DatasetIndex() {
  const datasets = usePoll<DatasetPage>(`/datasets?limit=${PAGE_SIZE}`, 10_000);
  const canUpload = useCanEditJobs();
  return (
    <>
      <h1>Datasets</h1>
      {canUpload && <UploadForm onDone={datasets.refresh} />}
      <LoadState what="datasets" of={datasets}>
        {({ items, next_cursor }) => (
          <>
            <DatasetTable datasets={items} />
            {next_cursor !== null && <p class="muted">Only the first {PAGE_SIZE} datasets are shown; <code>ampctl dataset list</code> lists all.</p>}
          </>
        )}
      </LoadState>
    </>
  );
}

function DatasetTable({ datasets }: { datasets: readonly Dataset[] }) {
  if (datasets.length === 0) {
    return <EmptyState title="No datasets yet">Upload a file here or with <code>ampctl dataset upload FILE</code>. Specs then name it: <code>data: {"{kind: npz, dataset: NAME}"}</code>.</EmptyState>;
  }
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="All datasets">
      <table class="table" aria-label="Datasets">
        <thead>
          <tr>
            <th scope="col">Dataset</th><th scope="col">Newest version</th><th scope="col">File</th><th scope="col">Kind</th>
            <th scope="col" class="number">Rows</th><th scope="col" class="number">Size</th>
            <th scope="col" class="number">Versions</th><th scope="col">Uploaded</th><th scope="col">By</th>
          </tr>
        </thead>
        <tbody>
          {datasets.map(({ name, newest, version_count }) => (
            <tr key={name}>
              <td><a href={routeHref(["datasets", name])}>{name}</a></td>
              <td><code>{name}@{newest.number}</code></td>
              <td>{newest.file_name}</td>
              <td>{newest.kind ?? newest.state}</td>
              <td class="number">{integer(newest.rows)}</td>
              <td class="number">{bytes(newest.size_bytes)}</td>
              <td class="number">{integer(version_count)}</td>
              <td class="muted">{dateTime(newest.created_at)}</td>
              <td>{newest.created_by}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
