import '@xyflow/react/dist/style.css'
import { Background, Controls, type Edge, Handle, type Node, type NodeProps, Position, ReactFlow } from '@xyflow/react'
import type { ReactElement } from 'react'
import { useTheme } from '../app/theme.ts'
import type { FlowStep, FlowView } from '../api/types.ts'
import { CountDown } from './parts.tsx'

const COLUMN_PX = 250
const ROW_PX = 92

interface Data extends Record<string, unknown> {
  readonly step: FlowStep
  readonly chosen: boolean
}

const TONES: Record<FlowStep['state'], string> = {
  done: 'border-good text-good',
  running: 'border-info text-info',
  waiting: 'border-warn text-warn',
  sleeping: 'border-violet text-violet',
  awaiting: 'border-violet text-violet',
  failed: 'border-bad text-bad',
  skipped: 'border-line-strong text-soft',
  pending: 'border-line-strong border-dashed text-faint',
}

function StepNode({ data: { step, chosen } }: NodeProps<Node<Data>>): ReactElement {
  return (
    <div
      className={`w-52 rounded-lg border-2 bg-surface px-3 py-2 text-left ${TONES[step.state]} ${chosen ? 'ring-2 ring-accent ring-offset-2 ring-offset-ground' : ''}`}
    >
      <Handle type="target" position={Position.Left} className="!border-0 !bg-line-strong" />
      <div className="truncate font-medium text-ink" title={step.name}>
        {step.name}
      </div>
      <div className="truncate text-xs">
        {step.state === 'waiting' && step.waitedFor !== null ? (
          <>
            waits for {step.waitedFor.limit}
            {step.waitedFor.key !== '' && ` · ${step.waitedFor.key}`}
            {step.wait?.expectedStart && (
              <>
                , <CountDown at={step.wait.expectedStart} />
              </>
            )}
          </>
        ) : (
          step.state
        )}
      </div>
      <Handle type="source" position={Position.Right} className="!border-0 !bg-line-strong" />
    </div>
  )
}

const TYPES = { step: StepNode }

/** Each step in the column behind the last of those that it needs. */
function columnsOf(needs: ReadonlyMap<string, readonly string[]>): Map<string, number> {
  const columns = new Map<string, number>()
  const visit = (name: string, seen: readonly string[]): number => {
    const known = columns.get(name)
    if (known !== undefined || seen.includes(name)) return known ?? 0
    const column = Math.max(-1, ...(needs.get(name) ?? []).map((each) => visit(each, [...seen, name]))) + 1
    columns.set(name, column)
    return column
  }
  for (const name of needs.keys()) visit(name, [])
  return columns
}

/** Without a graph: a step that began before another had ended stands below it. */
function columnsByTime(steps: readonly FlowStep[]): Map<string, number> {
  let column = 0
  let until = -Infinity
  return new Map(
    steps.map(({ name, startedAt, finishedAt }, n) => {
      const began = startedAt === null ? Infinity : Date.parse(startedAt)
      if (n > 0 && began >= until && until !== Infinity) column++
      until = Math.max(began >= until ? -Infinity : until, finishedAt === null ? Infinity : Date.parse(finishedAt))
      return [name, column]
    }),
  )
}

/** Steps that came one after another: each needs those of the column before. */
function inTurn(columns: ReadonlyMap<string, number>): Map<string, string[]> {
  const all = [...columns]
  return new Map(all.map(([name, at]) => [name, all.filter(([, column]) => column === at - 1).map(([each]) => each)]))
}

export function FlowGraph({
  flow,
  chosen,
  choose,
}: {
  readonly flow: FlowView
  readonly chosen: string | null
  readonly choose: (name: string) => void
}): ReactElement {
  const { shown } = useTheme()
  const isGraph = flow.steps.some(({ after }) => after !== undefined)
  const defined = new Map(flow.steps.map(({ name, after = [] }) => [name, after]))
  const columns = isGraph ? columnsOf(defined) : columnsByTime(flow.steps)
  const needs = isGraph ? defined : inTurn(columns)
  const rows = new Map<number, number>()
  const nodes = flow.steps.map((step): Node<Data> => {
    const { name } = step
    const column = columns.get(name) ?? 0
    const row = rows.get(column) ?? 0
    rows.set(column, row + 1)
    return {
      id: name,
      type: 'step',
      position: { x: column * COLUMN_PX, y: row * ROW_PX },
      data: { step, chosen: name === chosen },
      ariaLabel: `${name}, ${step.state}`,
    }
  })
  const edges = flow.steps.flatMap(({ name, state }): Edge[] =>
    (needs.get(name) ?? []).map((from) => ({
      id: `${from} ${name}`,
      source: from,
      target: name,
      animated: state === 'running',
    })),
  )
  return (
    <div className="h-[30rem]" data-testid="graph">
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={TYPES}
        colorMode={shown}
        fitView
        fitViewOptions={{ maxZoom: 1, padding: 0.15 }}
        minZoom={0.2}
        nodesDraggable={false}
        nodesConnectable={false}
        onNodeClick={(_, node) => choose(node.id)}
        preventScrolling={false}
      >
        <Background gap={20} />
        <Controls showInteractive={false} />
      </ReactFlow>
    </div>
  )
}
