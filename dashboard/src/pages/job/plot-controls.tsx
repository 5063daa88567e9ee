// The settings of a job's plots: x axis, range, smoothing, columns, further panels.
import { ColumnsChoice, SmoothingSlider } from "../../plots/settings/controls.tsx";
import { typedNumber, type PlotSettings, type XKind } from "../../plots/settings/settings.ts";
import type { StepRange } from "../../plots/skip-markers.ts";
import { zoomTo } from "./ranges.ts";

interface Props {
  settings: PlotSettings;
  xKinds: readonly (readonly [XKind, string])[];
  /** The keys of the panels on the page, and the columns of which others can be added. */
  keys: readonly string[];
  columns: readonly (readonly [string, string])[];
  shown: StepRange;
  all: StepRange;
  onChange: (changes: Partial<PlotSettings>) => void;
  onShow: (range: StepRange | null) => void;
  onSmooth: (smoothing: number | null) => void;
}

export function PlotControls({ settings, xKinds, keys, columns, shown, all, onChange, onShow, onSmooth }: Props) {
  const others = columns.filter(([key]) => !keys.includes(key));
  const showTyped = (from: number | null, to: number | null) => onShow(zoomTo([from ?? all[0], to ?? all[1]], all));
  return (
    <div class="row plot-controls" role="group" aria-label="Plot settings">
      <label class="field">
        <span>X axis</span>
        <select value={settings.x} onChange={(event) => onChange({ x: event.currentTarget.value as XKind })}>
          {xKinds.map(([kind, title]) => <option key={kind} value={kind}>{title}</option>)}
        </select>
      </label>
      <StepField label="From step" value={shown[0]} onChange={(from) => showTyped(from, shown[1])} />
      <StepField label="To step" value={shown[1]} onChange={(to) => showTyped(shown[0], to)} />
      <SmoothingSlider settings={settings} onChange={onChange} onMove={onSmooth} />
      <ColumnsChoice settings={settings} onChange={onChange} />
      {others.length > 0 && (
        <label class="field">
          <span>Add a panel</span>
          <select value="" onChange={(event) => event.currentTarget.value && onChange({ panels: [...keys, event.currentTarget.value] })}>
            <option value="">Select…</option>
            {others.map(([key, title]) => <option key={key} value={key}>{title}</option>)}
          </select>
        </label>
      )}
      {settings.panels && <button type="button" class="button" onClick={() => onChange({ panels: null })}>Usual panels</button>}
    </div>
  );
}

function StepField({ label, value, onChange }: { label: string; value: number; onChange: (step: number | null) => void }) {
  return (
    <label class="field step-field">
      <span>{label}</span>
      <input type="number" min={0} step={1} value={value} onChange={(event) => onChange(typedNumber(event.currentTarget.value))} />
    </label>
  );
}
