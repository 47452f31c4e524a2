import 'uplot/dist/uPlot.min.css'
import { type ReactElement, useEffect, useRef } from 'react'
import uPlot from 'uplot'
import { useTheme } from '../app/theme.ts'
import type { ChartProps } from './chart.tsx'
import { shortCount } from './words.ts'

/** The lines of a chart on one axis of time: uPlot takes columns. */
function columnsOf({ series, ceiling }: ChartProps): uPlot.AlignedData {
  const times = [...new Set(series.flatMap(({ points }) => points.map(([at]) => at)))].toSorted((a, b) => a - b)
  const lines = series.map(({ points }) => {
    const values = new Map(points)
    return times.map((at) => values.get(at) ?? null)
  })
  return [times.map((at) => at / 1000), ...lines, ...(ceiling ? [times.map(() => ceiling.value)] : [])]
}

function colours(): (name: string) => string {
  const style = getComputedStyle(document.documentElement)
  return (name) => style.getPropertyValue(name).trim()
}

export function Plot(props: ChartProps & { readonly height: number }): ReactElement {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const latest = useRef(props)
  latest.current = props
  const { shown } = useTheme()
  const shape = JSON.stringify([
    props.series.map(({ name, colour }) => [name, colour]),
    props.ceiling?.name,
    props.height,
  ])
  useEffect(() => {
    const element = box.current
    if (!element) return undefined
    const made = new uPlot(optionsOf(latest.current, element.clientWidth), columnsOf(latest.current), element)
    plot.current = made
    const resized = new ResizeObserver(() =>
      made.setSize({ width: element.clientWidth, height: latest.current.height }),
    )
    resized.observe(element)
    return () => {
      resized.disconnect()
      made.destroy()
      plot.current = null
    }
  }, [shape, shown])
  useEffect(() => plot.current?.setData(columnsOf(props)), [props])
  return <div ref={box} className="h-full w-full overflow-hidden" aria-hidden="true" />

  function optionsOf(
    { series, ceiling, height }: ChartProps & { readonly height: number },
    width: number,
  ): uPlot.Options {
    const colour = colours()
    const axis: uPlot.Axis = {
      stroke: colour('--ink-faint'),
      grid: { stroke: colour('--line'), width: 1 },
      ticks: { show: false },
      font: '11px Inter, system-ui, sans-serif',
    }
    return {
      width,
      height,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      padding: [8, 8, 0, 0],
      scales: { y: { range: (_, _min, max) => [0, Math.max(1, max * 1.08)] } },
      axes: [
        { ...axis, size: 28, space: 70, values: (_, splits) => splits.map(timeOf) },
        { ...axis, size: 46, space: 34, values: (_, splits) => splits.map((value) => shortCount(value)) },
      ],
      series: [
        {},
        ...series.map(({ name, colour: number, fill }): uPlot.Series => {
          const stroke = colour(`--plot-${number}`)
          return { label: name, stroke, width: 1.75, points: { show: false }, ...(fill && { fill: `${stroke}26` }) }
        }),
        ...(ceiling
          ? [{ label: ceiling.name, stroke: colour('--plot-5'), width: 1.25, dash: [6, 5], points: { show: false } }]
          : []),
      ],
      hooks: { drawClear: [(self) => shade(self, latest.current, `${colour('--plot-2')}2e`)] },
    }
  }
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hour12: false })

function timeOf(seconds: number): string {
  return CLOCK.format(seconds * 1000)
}

/** Shades each step in which something was throttled. */
function shade(self: uPlot, { shaded }: ChartProps, fill: string): void {
  if (!shaded) return
  const { ctx, bbox } = self
  ctx.save()
  ctx.fillStyle = fill
  const { points } = shaded
  const step = (points[1]?.[0] ?? 0) - (points[0]?.[0] ?? 0)
  for (const [at, value] of points) {
    if (!value) continue
    const left = Math.max(bbox.left, self.valToPos((at - step / 2) / 1000, 'x', true))
    const right = Math.min(bbox.left + bbox.width, self.valToPos((at + step / 2) / 1000, 'x', true))
    if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height)
  }
  ctx.restore()
}
