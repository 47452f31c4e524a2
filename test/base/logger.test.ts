import { describe, expect, test } from 'vitest'
import { createLineLogger } from '../../src/base/logger.ts'

const lines: string[] = []
const logger = createLineLogger((line) => lines.push(line))
const logged = (fields: object, message: string): string => {
  logger.warn(fields, message)
  return lines.pop() ?? ''
}

describe('the line logger', () => {
  test('writes warnings and errors and drops the rest', () => {
    logger.debug({}, 'a')
    logger.info({}, 'b')
    logger.warn({}, 'c')
    logger.error({ id: 1 }, 'd')
    expect(lines.splice(0)).toEqual(['sluice warn: c\n', 'sluice error: d {"id":1}\n'])
  })

  test('shows errors with code, message and cause', () => {
    const cause = new RangeError('inner')
    const error = Object.assign(new Error('outer', { cause }), { code: 'E1' })
    expect(logged({ error }, 'x')).toBe(
      'sluice warn: x {"error":{"name":"Error","code":"E1","message":"outer","cause":{"name":"RangeError","message":"inner"}}}\n',
    )
  })

  test('keeps to one line whatever the message and the fields hold', () => {
    expect(logged({ a: 'x\ny\u001b[2J' }, 'two\r\nlines\u001b[2J')).toBe(
      `sluice warn: two lines [2J {"a":"x${String.raw`\n`}y${String.raw`\u001b`}[2J"}\n`,
    )
  })

  test('never throws for what JSON cannot hold', () => {
    const cycle: Record<string, unknown> = {}
    cycle['self'] = cycle
    expect(logged({ n: 5n }, 'x')).toBe('sluice warn: x {"n":"5"}\n')
    expect(logged(cycle, 'x')).toMatch(/^sluice warn: x \(fields cannot be shown: [^\n]+\)\n$/)
  })
})
