// Controls of the settings that all plots of a page share.
import { useState } from "preact/hooks";
import { MAX_SMOOTHING, type PlotSettings } from "./settings.ts";

interface Props {
  settings: PlotSettings;
  onChange: (changes: Partial<PlotSettings>) => void;
}

/** Draws while the slider moves, and changes the address once it is released. */
export function SmoothingSlider({ settings, onChange, onMove }: Props & { onMove: (smoothing: number | null) => void }) {
  const [moving, setMoving] = useState<number | null>(null);
  const shown = moving ?? settings.smoothing;
  const move = (smoothing: number | null) => {
    setMoving(smoothing);
    onMove(smoothing);
  };
  return (
    <label class="field">
      <span>Smoothing {shown.toFixed(2)}</span>
      <input
        type="range"
        min={0}
        max={MAX_SMOOTHING}
        step={0.01}
        value={shown}
        onInput={(event) => move(Number(event.currentTarget.value))}
        onChange={(event) => {
          onChange({ smoothing: Number(event.currentTarget.value) });
          move(null);
        }}
      />
    </label>
  );
}

export function ColumnsChoice({ settings, onChange }: Props) {
  return (
    <label class="field">
      <span>Plots per row</span>
      <select value={settings.columns} onChange={(event) => onChange({ columns: Number(event.currentTarget.value) })}>
        <option value={0}>As many as fit</option>
        {[1, 2, 3].map((count) => <option key={count} value={count}>{count}</option>)}
      </select>
    </label>
  );
}
