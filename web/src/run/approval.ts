import { refusalOf, type Session } from '../lib/permissions'

interface Approval {
  approved_by: readonly string[]
  /** Who may decide; absent if everyone with the permission may. */
  from?: readonly string[]
}

/** toDecide counts the tasks of a list that wait for the user: those that the user may approve, and has not approved yet. */
export function toDecide(approvals: readonly (Approval & { group: string })[], session: Session): number {
  return approvals.filter((a) => !decisionRefusal(session, 'approveTask', a.group, a)).length
}

/** decidersOf says who may approve or reject a task in a group. */
export function decidersOf(approval: Approval, group: string): string {
  return approval.from ? approval.from.join(' or ') : `anyone with the role approver in ${group}, or with the scope write`
}

/** decisionRefusal says why the user may not approve or reject a task, and returns undefined if the gateway allows it. */
export function decisionRefusal(session: Session, decision: 'approveTask' | 'rejectTask', group: string, approval?: Approval): string | undefined {
  const refusal = refusalOf(session, decision, group)
  if (refusal || !approval) return refusal
  if (approval.from && !approval.from.includes(session.subject)) return `Only ${approval.from.join(' or ')} can decide.`
  return decision === 'approveTask' && approval.approved_by.includes(session.subject) ? 'You have approved it already.' : undefined
}
