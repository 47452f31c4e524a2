import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { Board } from '../../src/cli/demo/board.ts'
import { paintFor, progressLine, TABLE_COLUMNS, tableLines } from '../../src/cli/demo/paint.ts'
import { inWords } from '../../src/cli/words.ts'
import { partnerLimits } from '../../src/cli/demo/partner-task.ts'
import { PLAN_MAX, scenarioOf, type Tenant, TOTAL_MAX } from '../../src/cli/demo/scenario.ts'
import { openScreen } from '../../src/cli/demo/screen.ts'
import { createManualClock } from '../../src/exports/testing.ts'

const T0 = 1_000_000_000
const PERIOD_MS = 5250

function boardOf(...tenants: Tenant[]): Board {
  const board = new Board(tenants, partnerLimits('250ms', false), T0)
  for (const { name, jobs } of tenants) board.enqueued(name, jobs)
  return board
}

describe('the scenario', () => {
  it.each([
    [false, 5_000],
    [true, 1_700],
  ])('fast %s: 40 tenants, one with half of all jobs, more plans than the total allows, enough jobs', (fast, least) => {
    const { tenants } = scenarioOf({ fast })
    const jobs = tenants.reduce((sum, tenant) => sum + tenant.jobs, 0)
    expect(tenants).toHaveLength(40)
    expect(new Set(tenants.map((tenant) => tenant.name)).size).toBe(40)
    expect((tenants[0]?.jobs ?? 0) * 2).toBe(jobs)
    expect(jobs).toBeGreaterThanOrEqual(least)
    expect(tenants.reduce((sum, { plan }) => sum + PLAN_MAX[plan], 0)).toBeGreaterThan(TOTAL_MAX)
  })
})

describe('the board', () => {
  it('forecasts the start of the last waiting job: two windows on for 21 jobs of a budget of 10, one for 20', () => {
    expect(boardOf({ name: 'a', plan: 'starter', jobs: 20 }).view(T0).etaMs).toBe(PERIOD_MS)
    expect(boardOf({ name: 'a', plan: 'starter', jobs: 21 }).view(T0).etaMs).toBe(2 * PERIOD_MS)
  })

  it('takes the latest forecast of all, the total included', () => {
    const few = { plan: 'starter', jobs: 20 } as const
    expect(boardOf({ name: 'a', ...few }, { name: 'b', plan: 'growth', jobs: 90 }).view(T0).etaMs).toBe(3 * PERIOD_MS)
    const many = Array.from({ length: 151 }, (_, i): Tenant => ({ name: `t${i}`, plan: 'starter', jobs: 10 }))
    expect(boardOf(...many).view(T0).etaMs).toBe(2 * PERIOD_MS)
  })

  it('counts what the partner let in: done once per job, budget at every call', () => {
    const board = boardOf({ name: 'a', plan: 'starter', jobs: 30 })
    for (let i = 0; i < 9; i++) board.called('a', `job-${i}`, T0)
    board.called('a', 'job-0', T0 + 1000)
    const { tenants, total } = board.view(T0 + 2000)
    expect(tenants).toMatchObject([{ done: 9, waiting: 21, used: 10, max: 10, nextMs: PERIOD_MS - 2 }])
    expect(total).toMatchObject({ done: 9, waiting: 21, used: 10 })
    expect(board.waiting('a')).toBe(21)
    // 21 wait; one more at their end is the 22nd, in the third window from now.
    expect(board.waitAtTheEndMs('a', T0 + 2000)).toBe(3 * PERIOD_MS - 2)
  })
})

describe('what is shown', () => {
  const board = boardOf({ name: 'acme', plan: 'scale', jobs: 1600 }, { name: 'birch', plan: 'starter', jobs: 3 })
  const view = board.view(T0)

  it('a plain line has the counts and the forecast', () => {
    expect(progressLine(view, 12_000, 0)).toBe(
      ' 12 s  0 of 1,603 done (0 %), 1,603 to do, 0 of 750 used in this window, 0 refused, 15.8 s to go',
    )
  })

  it('a table fits the terminal, those with the most jobs first', () => {
    const plain = tableLines(view, 0, 0, paintFor(false), 24)
    expect(plain.join('\n')).not.toContain('\u001B')
    expect(plain.findIndex((line) => line.startsWith('acme'))).toBeLessThan(
      plain.findIndex((line) => line.startsWith('birch')),
    )
    expect(Math.max(...plain.map((line) => line.length))).toBeLessThanOrEqual(TABLE_COLUMNS)
    const all = boardOf(...scenarioOf({ fast: false }).tenants).view(T0)
    for (const rows of [10, 24, 60]) expect(tableLines(all, 0, 0, paintFor(true), rows).length).toBeLessThan(rows)
    expect(tableLines(all, 0, 0, paintFor(true), 24).join('\n')).toContain('\u001B[')
  })

  it.each([
    [0.2, 'now'],
    [250, '250 ms'],
    [5250, '5.3 s'],
    [61_000, '1 min 1 s'],
  ])('%d ms reads %s', (ms, words) => {
    expect(inWords(ms)).toBe(words)
  })

  it('a screen that is no terminal gets a line every 2 s until it is closed, and no codes', async () => {
    const clock = createManualClock()
    const out = new PassThrough({ encoding: 'utf8' })
    const screen = openScreen({
      out: out as unknown as NodeJS.WriteStream,
      colours: false,
      clock,
      source: () => ({ view, elapsedMs: 0, refused: 0 }),
    })
    screen.say('hello')
    await clock.advance('5s')
    screen.close()
    await clock.advance('5s')
    const lines = String(out.read()).trimEnd().split('\n')
    expect(lines).toHaveLength(3)
    expect(lines[0]).toBe('hello')
    expect(lines.join('')).not.toContain('\u001B')
  })
})
