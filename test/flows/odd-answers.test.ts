// Odd answers of the code of a flow: promises, instants that no store holds, and failures at which a body never looks.
import { describe, expect, onTestFinished, test } from 'vitest'
import { input, task } from '../../src/exports/index.ts'
import { graph, graphFromJson, machine, workflow } from '../../src/exports/flows.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const any = input<unknown>()
const once = { retry: { attempts: 1 } } as const

describe.each(STORES)('odd answers of the code of flows on $name', (store) => {
  test('a graph that sleeps until an instant that no store holds fails, and can still be read', async () => {
    const w = new FlowsHarness(store)
    const inCode = graph('in.code', input<string>())
      .sleep('rest', ({ input: at }) => new Date(at))
      .output(() => null)
    const inJson = graphFromJson({ name: 'in.json', steps: { rest: { sleep: { $ref: 'input' } } } })
    const engine = await w.start({ workflows: [inCode, inJson] })
    for (const [at, reason] of [
      ['+275760-09-13T00:00:00.000Z', 'option.invalid'],
      ['2290-01-01', 'option.invalid'],
      ['never', 'delay.invalid'],
    ] as const)
      for (const each of [inCode, inJson]) {
        const flow = await each.start(at)
        await w.clock.advance('1s')
        await expect(flow.result({ timeout: 0 })).rejects.toMatchObject({ code: 'flow.failed', reason })
        expect((await engine.flows.inspect(flow.id))?.steps).toMatchObject([{ name: 'rest', state: 'failed' }])
      }
    const nothing = await inJson.start(null)
    await w.clock.advance('1s')
    await expect(nothing.result({ timeout: 0 })).rejects.toMatchObject({ reason: 'delay.invalid' })
    expect(w.warnings).toEqual([])
  })

  test('a failure at which a body looks late or never ends no process', async () => {
    const lost: unknown[] = []
    const listener = (error: unknown): void => void lost.push(error)
    process.on('unhandledRejection', listener)
    onTestFinished(() => void process.off('unhandledRejection', listener))
    const w = new FlowsHarness(store)
    const fails = (): never => {
      throw new Error('no')
    }
    const late = workflow('late', any, {
      run: async (_input, flow) => {
        const failing = flow.step('fails', once, fails)
        await flow.sleep('pause', '1s')
        return failing.catch(() => 'seen')
      },
    })
    const never = workflow('never', any, {
      run: async (_input, flow) => {
        void flow.step('fails', once, fails)
        void flow.sleep('no time', 'soon' as never)
        await flow.sleep('pause', '1s')
        return 'done'
      },
    })
    const engine = await w.start({ workflows: [late, never] })
    const flows = [await late.start(1), await never.start(1)]
    await w.clock.advance('5s')
    expect(await Promise.all(flows.map((flow) => flow.result({ timeout: 0 })))).toEqual(['seen', 'done'])
    const { steps = [] } = (await engine.flows.inspect(flows[1]?.id ?? '')) ?? {}
    expect(new Map(steps.map(({ name, state }) => [name, state]))).toEqual(
      new Map([
        ['no time', 'failed'],
        ['fails', 'failed'],
        ['pause', 'done'],
      ]),
    )
    await new Promise((resolve) => setImmediate(resolve))
    expect(lost).toEqual([])
  })

  test('a promise in place of a value is refused, where it would have been stored as an empty object', async () => {
    const w = new FlowsHarness(store)
    const echo = task('echo', any, { run: (value) => value })
    const soon = (): never => Promise.resolve(5) as never
    const graphs = [
      graph('output', any)
        .step('a', () => 1)
        .output(soon),
      graph('input', any)
        .call('a', echo, soon)
        .output(() => null),
      graph('when', any)
        .step('a', { when: soon }, () => 1)
        .output(() => null),
      graph('until', any)
        .sleep('a', soon)
        .output(() => null),
    ]
    const next = machine('next', {
      states: { a: any },
      first: 'a',
      run: { a: (_state, to) => to.next('a', Promise.resolve(5)) },
    })
    const called = workflow('called', any, { run: (_input, flow) => flow.call('a', echo, Promise.resolve(5)) })
    await w.start({ tasks: [echo], workflows: [...graphs, next, called] })
    const reasons: string[] = []
    for (const each of [...graphs, next, called]) {
      const flow = await each.start(1)
      await w.clock.advance('1s')
      const error = (await flow.result({ timeout: 0 }).catch((thrown: unknown) => thrown)) as { reason: string }
      reasons.push(error.reason)
    }
    const unserialisable = 'payload.unserialisable'
    expect(reasons).toEqual([
      unserialisable,
      unserialisable,
      'option.invalid',
      'delay.invalid',
      unserialisable,
      unserialisable,
    ])
  })

  test('options behind the code of a step are refused, and options that are none', async () => {
    const w = new FlowsHarness(store)
    const echo = task('echo', any, { run: (value) => value })
    const calls: readonly ((flow: Record<string, (...given: unknown[]) => Promise<unknown>>) => unknown)[] = [
      (flow) => flow['step']?.('s', () => 1, { limits: [] }),
      (flow) => flow['map']?.('m', echo, [1], null),
    ]
    const body = workflow('body', input<number>(), {
      run: async (n, flow) => calls[n]?.(flow as never) as Promise<unknown>,
    })
    await w.start({ tasks: [echo], workflows: [body] })
    for (const [n] of calls.entries()) {
      const flow = await body.start(n)
      await w.clock.advance('1s')
      await expect(flow.result({ timeout: 0 })).rejects.toMatchObject({ reason: 'option.invalid' })
    }
  })

  test('a machine may have steps that are named as what every object has', async () => {
    const w = new FlowsHarness(store)
    const odd = machine('odd', {
      states: { constructor: any, toString: any },
      first: 'constructor',
      result: input<string>(),
      run: {
        constructor: (_state: unknown, to: { next(step: string, state: unknown): never }) => to.next('toString', 1),
        toString: (_state: unknown, to: { done(result: string): never }) => to.done('there'),
      } as never,
    })
    await w.start({ workflows: [odd] })
    const flow = await odd.start(1)
    await w.clock.advance('1s')
    expect(await flow.result({ timeout: 0 })).toBe('there')
  })
})
