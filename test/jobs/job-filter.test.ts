import { describe, expect, test } from 'vitest'
import { type JobFilter, jobMatch } from '../../src/jobs/job-filter.ts'
import { filterPair, jobFilterOfTexts } from '../../src/jobs/job-filter-text.ts'

describe('a filter of jobs', () => {
  test.each<[string, unknown, RegExp]>([
    ['a misspelt field', { queu: 'a' }, /no option "queu"; did you mean queue\?/],
    ['a likely name', { state: 'active' }, /did you mean states\?/],
    ['no object', 'active', /is invalid: 'active'/],
    ['a state as text', { states: 'active' }, /states is invalid: 'active'. Expected a list/],
    ['an unknown state', { states: ['waiting'] }, /states is invalid: 'waiting'/],
    ['a number for a name', { queue: 5 }, /queue is invalid: 5/],
    ['no tags', { tags: [] }, /tags is invalid: a list. Expected a list of 1 to 1000 texts/],
    ['a tag that is no text', { tags: [5] }, /tags is invalid: 5/],
    ['too many ids', { ids: Array.from({ length: 1001 }, String) }, /ids is invalid/],
    ['no values of meta', { meta: {} }, /meta is invalid/],
    ['a list in meta', { meta: { a: [1] } }, /meta is invalid: a list/],
    ['an empty text', { text: '' }, /text is invalid: ''/],
    ['a long text', { text: 'x'.repeat(1001) }, /text is invalid/],
    ['a key without its limit', { limitKey: 'a' }, /limitKey needs limitName/],
    ['a number for a time', { since: 5 }, /since is invalid: 5. Expected a date/],
    ['a time without a zone', { since: '2030-01-01T00:00:00' }, /since is invalid/],
    ['a month that is none', { until: '2030-13-01' }, /until is invalid: '2030-13-01'. Expected a date/],
    ['a day that is none', { until: '2030-02-31' }, /until is invalid: '2030-02-31'. Expected a date/],
    ['a time too far', { until: new Date('2200-01-01') }, /Expected a time before 2200/],
    ['an invalid date', { since: new Date(Number.NaN) }, /since is invalid: not a valid time/],
    ['a duration without unit', { since: '5' }, /since is invalid: "5" has no unit/],
  ])('with %s is refused', (_, filter, words) => {
    expect(() => jobMatch(filter as JobFilter, 'jobs.count')).toThrow(words)
  })

  test('whose name no store can hold matches no job', () => {
    for (const name of ['queue', 'task', 'limitName', 'schedule'] as const)
      for (const odd of ['a\0b', '\uDC00']) expect(jobMatch({ [name]: odd }, 'jobs.count')).toBeNull()
    expect(jobMatch({ text: 'a\0b', tags: ['\uD800'] }, 'jobs.count')).toMatchObject({ text: 'a\0b' })
  })
})

describe('a filter of texts', () => {
  const read = (...fields: [string, string][]): JobFilter => jobFilterOfTexts(fields, 'filter')

  test('has each field by its name', () => {
    expect(
      read(
        ['state', 'active, available'],
        ['state', 'retryable'],
        ['queue', 'mail'],
        ['tag', 'a,b'],
        ['tag', 'c'],
        ['meta.shop', '5'],
        ['meta.__proto__', 'x'],
        ['limit', 'crm'],
        ['key', 'acme'],
        ['since', '1h'],
      ),
    ).toEqual({
      states: ['active', 'available', 'retryable'],
      queue: 'mail',
      tags: ['a,b', 'c'],
      meta: Object.fromEntries([
        ['shop', '5'],
        ['__proto__', 'x'],
      ]),
      limitName: 'crm',
      limitKey: 'acme',
      since: '1h',
    })
  })

  test.each<[string, [string, string][], RegExp]>([
    ['an unknown field', [['que', 'a']], /no field "que"; did you mean queue\?/],
    ['a likely name', [['limitName', 'a']], /did you mean limit\?/],
    ['a field of every object', [['constructor', 'a']], /no field "constructor"/],
    ['meta without a name', [['meta.', 'a']], /no field "meta."/],
    [
      'a field twice',
      [
        ['queue', 'a'],
        ['queue', 'b'],
      ],
      /has "queue" twice/,
    ],
    [
      'a value of meta twice',
      [
        ['meta.a', 'a'],
        ['meta.a', 'b'],
      ],
      /has "meta.a" twice/,
    ],
    ['an empty state', [['state', 'active,']], /state is invalid/],
    ['an unknown state', [['state', 'waiting']], /states is invalid/],
  ])('with %s is refused', (_, fields, words) => {
    expect(() => read(...fields)).toThrow(words)
  })

  test('is split at its first sign of equality', () => {
    expect(filterPair('text=a=b', '--filter')).toEqual(['text', 'a=b'])
    for (const odd of ['', 'text', '=a']) expect(() => filterPair(odd, '--filter')).toThrow(/Expected name=value/)
  })
})
