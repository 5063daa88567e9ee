// The items of a plot's menu that set it: its y axis, and its place among the panels.
import { moved, toggleLogarithmic, typedNumber, withLimits, type PlotSettings } from "./settings.ts";

interface Props {
  panel: { key: string; isLossScale: boolean };
  settings: PlotSettings;
  /** The keys of all panels in their order; left out where they cannot be arranged. */
  keys?: readonly string[];
  onChange: (changes: Partial<PlotSettings>) => void;
}

export function SettingItems({ panel, settings, keys, onChange }: Props) {
  const { key, isLossScale } = panel;
  return (
    <>
      {!isLossScale && (
        <label class="menu-check">
          <input type="checkbox" checked={settings.logarithmic.includes(key)} onChange={() => onChange(toggleLogarithmic(settings, key))} />
          Logarithmic y axis
        </label>
      )}
      <YLimits panel={panel} settings={settings} onChange={onChange} />
      {keys && (
        <div class="row">
          <button type="button" class="button small" disabled={keys[0] === key} onClick={() => onChange({ panels: moved(keys, key, -1) })}>Move back</button>
          <button type="button" class="button small" disabled={keys.at(-1) === key} onClick={() => onChange({ panels: moved(keys, key, 1) })}>Move on</button>
          <button type="button" class="button small" disabled={keys.length === 1} onClick={() => onChange({ panels: keys.filter((other) => other !== key) })}>Remove</button>
        </div>
      )}
    </>
  );
}

function YLimits({ panel: { key }, settings, onChange }: Props) {
  const [low, high] = settings.limits.get(key) ?? [null, null];
  return (
    <div class="row limits">
      <label class="field">
        <span>Y from</span>
        <input type="number" step="any" value={low ?? ""} placeholder="auto" onChange={(event) => onChange(withLimits(settings, key, [typedNumber(event.currentTarget.value), high]))} />
      </label>
      <label class="field">
        <span>Y to</span>
        <input type="number" step="any" value={high ?? ""} placeholder="auto" onChange={(event) => onChange(withLimits(settings, key, [low, typedNumber(event.currentTarget.value)]))} />
      </label>
    </div>
  );
}
