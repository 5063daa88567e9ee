// The pages of models: the list, and a model with its versions.
import { routeHref, type Route } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import type { Model, ModelPage } from "../../api/types.ts";
import { EmptyState, LoadState } from "../../components/load-state.tsx";
import { dateTime, integer } from "../../display/format.ts";
import { metricsText } from "../../display/models.ts";
import { ModelDetails } from "./details.tsx";

const PAGE_SIZE = 1000;

export function ModelsPage({ route }: { route: Route }) {
  const [, name, version] = route.path;
  return name === undefined ? <ModelIndex /> : <ModelDetails key={name} name={name} version={version ?? null} />;
}

function ModelIndex() {
  const models = usePoll<ModelPage>(`/registered-models?limit=${PAGE_SIZE}`, 10_000);
  return (
    <>
      <h1>Models</h1>
      <LoadState what="models" of={models}>
        {({ items, next_cursor }) => (
          <>
            <ModelTable models={items} />
            {next_cursor !== null && <p class="muted">Only the first {PAGE_SIZE} models are shown; <code>ampctl model list</code> lists all.</p>}
          </>
        )}
      </LoadState>
    </>
  );
}

function ModelTable({ models }: { models: readonly Model[] }) {
  if (models.length === 0) {
    return <EmptyState title="No models yet">Register the model of a job that has succeeded: <code>ampctl model register NAME JOB</code>.</EmptyState>;
  }
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="All models">
      <table class="table" aria-label="Models">
        <thead>
          <tr>
            <th scope="col">Model</th><th scope="col">Aliases</th><th scope="col">Newest version</th><th scope="col">Metrics</th>
            <th scope="col" class="number">Versions</th><th scope="col">Registered</th><th scope="col">By</th>
          </tr>
        </thead>
        <tbody>
          {models.map(({ name, aliases, newest, version_count }) => (
            <tr key={name}>
              <td><a href={routeHref(["models", name])}>{name}</a></td>
              <td>{Object.entries(aliases).map(([alias, number]) => `${alias} ${number}`).join(", ")}</td>
              <td><code>{name}:{newest.number}</code></td>
              <td>{metricsText(newest)}</td>
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
