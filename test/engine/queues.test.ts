import { describe, expect, test } from 'vitest'
import { input, type SluiceOptions, task } from '../../src/exports/index.ts'
import { createEngineHarness } from './engine-harness.ts'

const taskOn = (name: string, queue?: string) =>
  task(name, input<undefined>(), { ...(queue !== undefined && { queue }), run: () => undefined })

async function statesOf(options: Partial<SluiceOptions>, ...queues: string[]): Promise<string[]> {
  const harness = createEngineHarness()
  const tasks = queues.map((queue) => taskOn(`on.${queue}`, queue))
  const engine = await harness.start({ ...options, tasks })
  const jobs = await Promise.all(tasks.map((each) => engine.enqueue(each)))
  await harness.clock.advance('1s')
  return Promise.all(jobs.map(async ({ id }) => (await engine.jobs.get(id))?.state ?? 'missing'))
}

describe('an engine serves', () => {
  test('default and the queues of its tasks, when it names no queues', async () => {
    expect(await statesOf({}, 'mail', 'default', 'reports')).toEqual(['completed', 'completed', 'completed'])
  })

  test('default, when no task goes there, for calls that name it', async () => {
    const harness = createEngineHarness()
    const mail = taskOn('mail.send', 'mail')
    const engine = await harness.start({ tasks: [mail] })
    const { id } = await engine.enqueue(mail, undefined, { queue: 'default' })
    await harness.clock.advance('1s')
    expect((await engine.jobs.get(id))?.state).toBe('completed')
  })

  test('exactly the queues that it names', async () => {
    expect(await statesOf({ queues: { mail: {} } }, 'mail', 'default')).toEqual(['completed', 'available'])
    expect(await statesOf({ queues: {} }, 'mail', 'default')).toEqual(['available', 'available'])
  })

  test('the queues of a list of names', async () => {
    expect(await statesOf({ queues: ['mail', 'reports'] }, 'mail', 'default', 'reports')).toEqual([
      'completed',
      'available',
      'completed',
    ])
  })

  test('as many jobs at once as the number in place of options', async () => {
    const harness = createEngineHarness()
    const slow = task('slow', input<undefined>(), {
      queue: 'mail',
      run: () => new Promise<void>((resolve) => void harness.clock.setTimer(resolve, 1000)),
    })
    const engine = await harness.start({ tasks: [slow], queues: { mail: 2 } })
    await engine.enqueue(slow)
    await engine.enqueue(slow)
    await engine.enqueue(slow)
    await harness.clock.advance('500ms')
    const active = await engine.jobs.list({ states: ['active'] })
    expect(active).toHaveLength(2)
  })
})

describe('a warning tells', () => {
  test('of a task whose queue the engine does not serve, at its start', async () => {
    const harness = createEngineHarness()
    await harness.start({ tasks: [taskOn('mail.send', 'mail'), taskOn('report')], queues: ['default'] })
    expect(harness.warnings).toEqual([expect.stringMatching(/mail\.send.*queue mail/)])
  })

  test('nothing where all queues of tasks are named, be it without a slot', async () => {
    const harness = createEngineHarness()
    const tasks = [taskOn('mail.send', 'mail'), taskOn('report')]
    await harness.start({ tasks, queues: { mail: 0, default: {} } })
    await harness.start({ tasks })
    expect(harness.warnings).toEqual([])
  })

  test('of the first job of a queue that no live worker serves', async () => {
    const harness = createEngineHarness()
    const report = taskOn('report')
    const engine = await harness.start({ tasks: [report] })
    await engine.enqueue(report)
    await engine.enqueue(report, undefined, { queue: 'nowhere' })
    await engine.enqueue(report, undefined, { queue: 'nowhere' })
    await harness.clock.advance('1s')
    expect(harness.warnings).toEqual([expect.stringMatching(/no live worker serves queue nowhere/)])
  })

  test('of a queue whose worker has gone since', async () => {
    const harness = createEngineHarness()
    const report = taskOn('report')
    const engine = harness.create({ tasks: [report] })
    await engine.enqueue(report)
    await harness.clock.advance('1s')
    expect(harness.warnings).toEqual([expect.stringMatching(/queue default/)])
  })
})

describe('queues are refused when', () => {
  test.each([
    ['they are a text', 'mail'],
    ['they are null', null],
    ['a list holds something else than names', [{ mail: 5 }]],
    ['a name is invalid', ['No Such Name']],
    ['a queue has options of no kind', { mail: 'five' }],
    ['a queue has null', { mail: null }],
    ['a queue has a list', { mail: [5] }],
    ['a queue has an unknown option', { mail: { limit: [] } }],
    ['a concurrency is a text', { mail: { concurrency: '5' } }],
    ['a concurrency is not whole', { mail: 2.5 }],
    ['a concurrency is negative', { mail: -1 }],
  ])('%s', (_, queues) => {
    const harness = createEngineHarness()
    const refused = (): unknown => {
      try {
        return harness.create({ tasks: [], queues: queues as never })
      } catch (error) {
        return (error as { code?: string }).code
      }
    }
    expect(refused()).toMatch(/^(option|queue)\.invalid$/)
  })
})
