import { groupDigits } from '../../policy/limits/policy-words.ts'
import { inWords } from '../words.ts'
import type { BoardRow, BoardView } from './board.ts'

/** Text with colours, or the same text without. */
export type Paint = (style: Style, text: string) => string

type Style = 'bold' | 'dim' | 'green' | 'red' | 'yellow' | 'cyan'

const CODES: Readonly<Record<Style, number>> = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 }

/** Paints with ANSI codes, or not at all. */
export function paintFor(colours: boolean): Paint {
  return colours ? (style, text): string => `\u001B[${CODES[style]}m${text}\u001B[0m` : (_style, text): string => text
}

/** The width of a table row. */
export const TABLE_COLUMNS = 70

const BAR = 30
const USED_BAR = 10

/** One line about the demo's progress. */
export function progressLine(view: BoardView, elapsedMs: number, refused: number): string {
  const { done, jobs, waiting, used, max } = view.total
  const share = jobs === 0 ? 0 : Math.floor((100 * done) / jobs)
  const left = waiting === 0 ? 'done' : `${inWords(view.etaMs)} to go`
  return (
    `${(elapsedMs / 1000).toFixed(0).padStart(3)} s  ${groupDigits(done)} of ${groupDigits(jobs)} done (${share} %), ` +
    `${groupDigits(waiting)} to do, ${used} of ${max} used in this window, ${refused} refused, ${left}`
  )
}

/**
 * The live table: a progress bar, the total, and as many tenants as fit, those with the most to do first.
 * @param rows of the terminal.
 */
export function tableLines(view: BoardView, elapsedMs: number, refused: number, paint: Paint, rows: number): string[] {
  const { done, jobs, waiting } = view.total
  const share = jobs === 0 ? 0 : done / jobs
  const bar =
    paint('green', '█'.repeat(Math.round(share * BAR))) + paint('dim', '░'.repeat(BAR - Math.round(share * BAR)))
  const left = waiting === 0 ? 'done' : `${inWords(view.etaMs)} to go`
  const refusals = paint(refused === 0 ? 'green' : 'red', `${refused} refused`)
  const head = `${bar} ${paint('bold', `${Math.floor(share * 100)} %`)}  ${groupDigits(done)} of ${groupDigits(jobs)} jobs`
  const state = `${(elapsedMs / 1000).toFixed(0)} s, ${left}, ${refusals}`
  const columns = `${'tenant'.padEnd(10)} ${'plan'.padEnd(8)} ${'done'.padStart(6)} ${'waiting'.padStart(8)}  ${'budget used'.padEnd(USED_BAR + 9)} ${'next start'.padStart(10)}`
  const shown = Math.max(1, Math.min(view.tenants.length, rows - 7))
  const sorted = view.tenants.toSorted((a, b) => b.jobs - a.jobs).slice(0, shown)
  const hidden = view.tenants.length - shown
  return [
    head,
    state,
    paint('dim', columns),
    paint('bold', rowText(view.total)),
    ...sorted.map((row) => (row.waiting === 0 ? paint('dim', rowText(row)) : rowText(row))),
    ...(hidden === 0 ? [] : [paint('dim', `and ${hidden} more tenants; a higher window shows them`)]),
  ]
}

function rowText({ name, plan, done, waiting, used, max, nextMs }: BoardRow): string {
  const cells = Math.round((used / max) * USED_BAR)
  const bar = '▪'.repeat(cells) + '·'.repeat(USED_BAR - cells)
  const next = nextMs === null ? '' : inWords(nextMs)
  const budget = `${bar} ${`${used}/${max}`.padStart(8)}`
  return `${name.padEnd(10)} ${plan.padEnd(8)} ${groupDigits(done).padStart(6)} ${groupDigits(waiting).padStart(8)}  ${budget} ${next.padStart(10)}`
}
