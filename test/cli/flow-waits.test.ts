// One wait, told in code, on the command line and over HTTP, on every store and the real clock.
import { describe, expect, onTestFinished, test } from 'vitest'
import type { FlowInspection } from '../../src/engine/api/flows.ts'
import { workflow } from '../../src/exports/flows.ts'
import { createHttpApp } from '../../src/exports/http.ts'
import { input, limit, silentLogger, Sluice } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { sluice } from './terminal.ts'

interface Wait {
  readonly step: string
  readonly limit: string | undefined
  readonly key: string | null | undefined
  readonly position: number | null
  readonly startMs: number
}

interface StepJson {
  readonly name: string
  readonly state: string
  readonly wait?: { readonly x_wait: { limit: string; key: string; position: number; expected_start: string } }
}

const stores = await everyStore('waits of flows told in three ways')

describe.each(stores)('17 steps of a flow that wait, on $name', (store) => {
  test('have the same limit, key, position and expected start in code, on the command line and over HTTP', async () => {
    const url = store.create()
    const slow = limit('slow', { rate: 1, per: '1h', burst: 1 })
    const names = Array.from({ length: 18 }, (_, i) => `step ${i}`)
    const wide = workflow('wide', input<{ tenant: string }>(), {
      run: ({ tenant }, flow) =>
        Promise.all(names.map((name) => flow.step(name, { limits: [slow.key(tenant)] }, () => name))),
    })
    const engine = new Sluice({ store: url, tasks: [], workflows: [wide], logger: silentLogger })
    const app = createHttpApp({ sluice: engine })
    onTestFinished(async () => {
      app.close()
      await engine.stop({ within: 0 })
    })
    await engine.start()
    const { id } = await wide.start({ tenant: 'acme' })
    const open = async (): Promise<string[]> =>
      (await engine.flows.inspect(id))?.steps.flatMap(({ name, state }) => (state === 'waiting' ? [name] : [])) ?? []
    await expect.poll(open).toHaveLength(17)
    const inspected = await engine.flows.inspect(id)
    const { out, err } = await sluice(['flows', 'show', id, '--json', '--store', url])
    expect(err).toBe('')
    const response = await app.fetch(new Request(`http://server/flows/v1/flows/${id}`))
    const body = (await response.json()) as { steps: StepJson[] }
    const inCode = waitsOf(inspected?.steps ?? [])
    const onTheLine = waitsOf((JSON.parse(out) as FlowInspection).steps)
    const overHttp = body.steps.flatMap(({ name, state, wait }): Wait[] =>
      state === 'waiting' && wait
        ? [
            {
              step: name,
              limit: wait.x_wait.limit,
              key: wait.x_wait.key,
              position: wait.x_wait.position,
              startMs: Date.parse(wait.x_wait.expected_start),
            },
          ]
        : [],
    )
    expect(inCode.map(({ position }) => position)).toEqual(Array.from({ length: 17 }, (_, i) => i + 1))
    expect(inCode.map(({ step }) => step)).toEqual(names.slice(1))
    const startedMs = inspected?.steps[0]?.startedAt?.getTime() ?? 0
    for (const { limit: name, key, position, startMs } of inCode) {
      expect([name, key]).toEqual(['slow', 'acme'])
      expect(Math.abs(startMs - startedMs - (position ?? 0) * 3_600_000)).toBeLessThanOrEqual(50)
    }
    for (const others of [onTheLine, overHttp]) {
      expect(others.map(({ startMs: _, ...rest }) => rest)).toEqual(inCode.map(({ startMs: _, ...rest }) => rest))
      for (const [i, { startMs }] of others.entries())
        expect(Math.abs(startMs - (inCode[i]?.startMs ?? 0))).toBeLessThanOrEqual(50)
    }
  })
})

function waitsOf(steps: FlowInspection['steps']): Wait[] {
  return steps.flatMap(({ name, state, wait }): Wait[] => {
    if (state !== 'waiting' || !wait) return []
    const { waitsOn, linePosition, expectedStart } = wait
    const startMs = new Date(expectedStart ?? 0).getTime()
    return [{ step: name, limit: waitsOn?.limit, key: waitsOn?.key, position: linePosition, startMs }]
  })
}
