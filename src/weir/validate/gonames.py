"""How does the API server print this part of an object when it refuses it?

Bad values and diffs of structs show the server's internal types: Go field names, every field in declaration order,
absent pointers, lists and maps as `null`, absent text as `""`. The tables say that for the structs that messages show.

Spec: core.md 2.1 "Error model" (values), 2.6 "Pod update" (the diff after the message).
Not here: which field is wrong (weir.validate.field).
"""

from __future__ import annotations

import difflib
import json
from typing import Any, Final

from weir.validate.field import Document

# One line a struct: `GoName[=wireName][:type]`. Types: none text, i integer, b boolean, p null when absent,
# m map (keys sorted), a struct's name for one inside, *Name for one that may be absent, []Name for a list.
_TABLE: Final = {
    "ObjectReference": (
        "Kind Namespace Name UID=uid APIVersion=apiVersion ResourceVersion FieldPath"
    ),
    "Taint": "Key Value Effect TimeAdded:p",
    "Toleration": "Key Operator Value Effect TolerationSeconds:p",
    "DeviceAttribute": (
        "IntValue=int:p BoolValue=bool:p StringValue=string:p VersionValue=version:p IntValues=ints:p "
        "BoolValues=bools:p StringValues=strings:p VersionValues=versions:p"
    ),
    "NodeSelectorRequirement": "Key Operator Values:p",
    "NodeSelectorTerm": "MatchExpressions:[]NodeSelectorRequirement MatchFields:[]NodeSelectorRequirement",
    "NodeSelector": "NodeSelectorTerms:[]NodeSelectorTerm",
    "VolumeNodeAffinity": "Required:*NodeSelector",
    "PreferredSchedulingTerm": "Weight:i Preference:NodeSelectorTerm",
    "NodeAffinity": (
        "RequiredDuringSchedulingIgnoredDuringExecution:*NodeSelector "
        "PreferredDuringSchedulingIgnoredDuringExecution:[]PreferredSchedulingTerm"
    ),
    "PodAffinityTerm": (
        "LabelSelector:p Namespaces:p TopologyKey NamespaceSelector:p MatchLabelKeys:p MismatchLabelKeys:p"
    ),
    "WeightedPodAffinityTerm": "Weight:i PodAffinityTerm:PodAffinityTerm",
    "PodAffinity": (
        "RequiredDuringSchedulingIgnoredDuringExecution:[]PodAffinityTerm "
        "PreferredDuringSchedulingIgnoredDuringExecution:[]WeightedPodAffinityTerm"
    ),
    "Affinity": "NodeAffinity:*NodeAffinity PodAffinity:*PodAffinity PodAntiAffinity:*PodAffinity",
    "PodResourceClaim": "Name ResourceClaimName:p ResourceClaimTemplateName:p",
    "ResourceClaim": "Name Request",
    "ResourceRequirements": "Limits:m Requests:m Claims:[]ResourceClaim",
    "PodSchedulingGate": "Name",
    "PodReadinessGate": "ConditionType",
    "LocalObjectReference": "Name",
    "HostAlias": "IP=ip Hostnames:p",
    "PodOS": "Name",
    "TopologySpreadConstraint": (
        "MaxSkew:i TopologyKey WhenUnsatisfiable LabelSelector:p MinDomains:p NodeAffinityPolicy:p "
        "NodeTaintsPolicy:p MatchLabelKeys:p"
    ),
    "ContainerPort": "Name HostPort:i ContainerPort:i Protocol HostIP=hostIP",
    "ObjectFieldSelector": "APIVersion=apiVersion FieldPath",
    "ResourceFieldSelector": "ContainerName Resource=resource Divisor",
    "ConfigMapKeySelector": "Name Key Optional:p",
    "FileKeySelector": "VolumeName Path Key Optional:p",
    "EnvVarSource": (
        "FieldRef:*ObjectFieldSelector ResourceFieldRef:*ResourceFieldSelector ConfigMapKeyRef:*ConfigMapKeySelector "
        "SecretKeyRef:*ConfigMapKeySelector FileKeyRef:*FileKeySelector"
    ),
    "EnvVar": "Name Value ValueFrom:*EnvVarSource",
    "EnvSource": "Name Optional:p",
    "EnvFromSource": "Prefix ConfigMapRef:*EnvSource SecretRef:*EnvSource",
    "ContainerResizePolicy": "ResourceName RestartPolicy",
    "VolumeMount": (
        "Name ReadOnly:b RecursiveReadOnly:p MountPath SubPath MountPropagation:p SubPathExpr BindMountOptions:p"
    ),
    "VolumeDevice": "Name DevicePath",
    "ExecAction": "Command:p",
    "HTTPHeader": "Name Value",
    "HTTPGetAction": "Path Port:p Host Scheme HTTPHeaders=httpHeaders:[]HTTPHeader Protocol:p",
    "TCPSocketAction": "Port:p Host",
    "GRPCAction": "Port:i Service:p Mode:p",
    "SleepAction": "Seconds:i",
    "LifecycleHandler": (
        "Exec:*ExecAction HTTPGet=httpGet:*HTTPGetAction TCPSocket=tcpSocket:*TCPSocketAction Sleep:*SleepAction"
    ),
    "Lifecycle": "PostStart:*LifecycleHandler PreStop:*LifecycleHandler StopSignal:p",
    "Probe": (
        "Exec:*ExecAction HTTPGet=httpGet:*HTTPGetAction TCPSocket=tcpSocket:*TCPSocketAction GRPC=grpc:*GRPCAction "
        "InitialDelaySeconds:i TimeoutSeconds:i PeriodSeconds:i SuccessThreshold:i FailureThreshold:i "
        "TerminationGracePeriodSeconds:p"
    ),
    "Capabilities": "Add:p Drop:p",
    "SELinuxOptions": "User Role Type Level",
    "WindowsSecurityContextOptions": (
        "GMSACredentialSpecName=gmsaCredentialSpecName:p GMSACredentialSpec=gmsaCredentialSpec:p "
        "RunAsUserName:p HostProcess:p"
    ),
    "LocalhostProfile": "Type LocalhostProfile:p",
    "SecurityContext": (
        "Capabilities:*Capabilities Privileged:p SELinuxOptions=seLinuxOptions:*SELinuxOptions "
        "WindowsOptions:*WindowsSecurityContextOptions RunAsUser:p RunAsGroup:p RunAsNonRoot:p "
        "ReadOnlyRootFilesystem:p AllowPrivilegeEscalation:p ProcMount:p SeccompProfile:*LocalhostProfile "
        "AppArmorProfile:*LocalhostProfile"
    ),
    "Container": (
        "Name Image Command:p Args:p WorkingDir Ports:[]ContainerPort EnvFrom:[]EnvFromSource Env:[]EnvVar "
        "Resources:ResourceRequirements ResizePolicy:[]ContainerResizePolicy RestartPolicy:p RestartPolicyRules:p "
        "VolumeMounts:[]VolumeMount VolumeDevices:[]VolumeDevice LivenessProbe:*Probe ReadinessProbe:*Probe "
        "StartupProbe:*Probe Lifecycle:*Lifecycle TerminationMessagePath TerminationMessagePolicy ImagePullPolicy "
        "SecurityContext:*SecurityContext Stdin:b StdinOnce:b TTY=tty:b"
    ),
    "EphemeralContainer": "Container:Container TargetContainerName",
    "Sysctl": "Name Value",
    "PodSecurityContext": (
        "SELinuxOptions=seLinuxOptions:*SELinuxOptions WindowsOptions:*WindowsSecurityContextOptions RunAsUser:p "
        "RunAsGroup:p RunAsNonRoot:p SupplementalGroups:p SupplementalGroupsPolicy:p FSGroup=fsGroup:p "
        "Sysctls:[]Sysctl FSGroupChangePolicy=fsGroupChangePolicy:p SeccompProfile:*LocalhostProfile "
        "AppArmorProfile:*LocalhostProfile SELinuxChangePolicy=seLinuxChangePolicy:p"
    ),
    "PodDNSConfigOption": "Name Value:p",
    "PodDNSConfig": "Nameservers:p Searches:p Options:[]PodDNSConfigOption",
    "KeyToPath": "Key Path Mode:p User:p",
    "DownwardAPIVolumeSource": "Items:[]DownwardAPIVolumeFile DefaultMode:p DefaultUser:p",
    "ProjectedVolumeSource": "Sources:[]VolumeProjection DefaultMode:p DefaultUser:p",
    "CSIVolumeSource": (
        "Driver ReadOnly:p FSType=fsType:p VolumeAttributes:m NodePublishSecretRef:*LocalObjectReference"
    ),
    "DownwardAPIVolumeFile": (
        "Path FieldRef:*ObjectFieldSelector ResourceFieldRef:*ResourceFieldSelector Mode:p User:p"
    ),
    "VolumeProjection": (
        "Secret:p DownwardAPI=downwardAPI:*DownwardAPIVolumeSource ConfigMap:p ServiceAccountToken:p "
        "ClusterTrustBundle:p PodCertificate:p"
    ),
    "EmptyDirVolumeSource": "Medium SizeLimit:p Mode:p",
    "HostPathVolumeSource": "Path Type:p",
    "SecretVolumeSource": "SecretName Items:[]KeyToPath DefaultMode:p Optional:p DefaultUser:p",
    "ConfigMapVolumeSource": "Name Items:[]KeyToPath DefaultMode:p Optional:p DefaultUser:p",
    "NFSVolumeSource": "Server Path ReadOnly:b",
    "PersistentVolumeClaimVolumeSource": "ClaimName ReadOnly:b",
    "LocalVolumeSource": "Path FSType=fsType:p",
    "Volume": (
        "Name HostPath:*HostPathVolumeSource EmptyDir:*EmptyDirVolumeSource GCEPersistentDisk=gcePersistentDisk:p "
        "AWSElasticBlockStore=awsElasticBlockStore:p GitRepo:p Secret:*SecretVolumeSource NFS=nfs:*NFSVolumeSource "
        "ISCSI=iscsi:p Glusterfs:p PersistentVolumeClaim:*PersistentVolumeClaimVolumeSource RBD=rbd:p "
        "FlexVolume:p Cinder:p CephFS=cephfs:p Flocker:p DownwardAPI=downwardAPI:*DownwardAPIVolumeSource FC=fc:p "
        "AzureFile:p ConfigMap:*ConfigMapVolumeSource VsphereVolume:p Quobyte:p AzureDisk:p PhotonPersistentDisk:p "
        "Projected:*ProjectedVolumeSource PortworxVolume:p ScaleIO=scaleIO:p StorageOS=storageos:p "
        "CSI=csi:*CSIVolumeSource Ephemeral:p Image:p"
    ),
    "PersistentVolumeSource": (
        "GCEPersistentDisk=gcePersistentDisk:p AWSElasticBlockStore=awsElasticBlockStore:p "
        "HostPath:*HostPathVolumeSource Glusterfs:p NFS=nfs:*NFSVolumeSource RBD=rbd:p Quobyte:p ISCSI=iscsi:p "
        "FlexVolume:p Cinder:p CephFS=cephfs:p FC=fc:p Flocker:p AzureFile:p VsphereVolume:p AzureDisk:p "
        "PhotonPersistentDisk:p PortworxVolume:p ScaleIO=scaleIO:p Local:*LocalVolumeSource StorageOS=storageos:p "
        "CSI=csi:p"
    ),
    "VolumeResourceRequirements": "Limits:m Requests:m",
    "PersistentVolumeClaimSpec": (
        "AccessModes:p Selector:p Resources:VolumeResourceRequirements VolumeName StorageClassName:p VolumeMode:p "
        "DataSource:p DataSourceRef:p VolumeAttributesClassName:p"
    ),
    "PodFailurePolicyOnPodConditionsPattern": "Type Status",
    "PodFailurePolicyOnExitCodesRequirement": "ContainerName:p Operator Values:p",
    "PodFailurePolicyRule": (
        "Action OnExitCodes:*PodFailurePolicyOnExitCodesRequirement "
        "OnPodConditions:[]PodFailurePolicyOnPodConditionsPattern"
    ),
    "PodFailurePolicy": "Rules:[]PodFailurePolicyRule",
    "SuccessPolicyRule": "SucceededIndexes:p SucceededCount:p",
    "SuccessPolicy": "Rules:[]SuccessPolicyRule",
    "PersistentVolumeClaimStatus": (
        "Phase AccessModes:p Capacity:m Conditions:p AllocatedResources:m AllocatedResourceStatuses:m "
        "CurrentVolumeAttributesClassName:p ModifyVolumeStatus:p HealthStatus:p"
    ),
    "PodSpec": (
        "Volumes:[]Volume InitContainers:[]Container Containers:[]Container EphemeralContainers:[]EphemeralContainer "
        "RestartPolicy TerminationGracePeriodSeconds:p ActiveDeadlineSeconds:p DNSPolicy=dnsPolicy NodeSelector:m "
        "ServiceAccountName DeprecatedServiceAccount=serviceAccount AutomountServiceAccountToken:p NodeName "
        "HostNetwork:b HostPID=hostPID:b HostIPC=hostIPC:b ShareProcessNamespace:p "
        "SecurityContext:*PodSecurityContext ImagePullSecrets:[]LocalObjectReference Hostname Subdomain "
        "Affinity:*Affinity SchedulerName Tolerations:[]Toleration HostAliases:[]HostAlias PriorityClassName "
        "Priority:p DNSConfig=dnsConfig:*PodDNSConfig ReadinessGates:[]PodReadinessGate RuntimeClassName:p "
        "EnableServiceLinks:p PreemptionPolicy:p Overhead:m TopologySpreadConstraints:[]TopologySpreadConstraint "
        "SetHostnameAsFQDN=setHostnameAsFQDN:p OS=os:*PodOS HostUsers:p SchedulingGates:[]PodSchedulingGate "
        "ResourceClaims:[]PodResourceClaim Resources:*ResourceRequirements HostnameOverride:p SchedulingGroup:p "
        "EvictionResponders:p"
    ),
}  # fmt: skip

_ZERO: Final = {"": "", "i": 0, "b": False, "p": None, "m": None}

_Field = tuple[str, str, str]
_parsed: dict[str, tuple[_Field, ...]] = {}


def _fields(struct: str) -> tuple[_Field, ...]:
    """Return (Go name, wire name, type) for each field of *struct*."""
    if struct not in _parsed:
        fields = []
        for item in _TABLE[struct].split():
            names, _, kind = item.partition(":")
            go, _, wire = names.partition("=")
            fields.append((go, wire or go[0].lower() + go[1:], kind))
        _parsed[struct] = tuple(fields)
    return _parsed[struct]


def go_struct(struct: str, wire: Document | None) -> dict[str, Any] | None:
    """Return *wire* as the server's *struct* marshals; an absent one is null.

    >>> go_struct("Taint", {"key": "sla", "effect": "NoSchedule"})
    {'Key': 'sla', 'Value': '', 'Effect': 'NoSchedule', 'TimeAdded': None}
    """
    if wire is None:
        return None
    if struct == "EphemeralContainer":  # a container's fields and one more
        inner = go_struct("Container", wire) or {}
        return {**inner, "TargetContainerName": wire.get("targetContainerName") or ""}
    return {go: _go_value(kind, wire.get(name)) for go, name, kind in _fields(struct)}


def go_list(struct: str, wire: list[Document] | None) -> list[Any] | None:
    """Return a list of *struct*; an absent or empty one is null."""
    return [go_struct(struct, item) for item in wire] if wire else None


def _go_value(kind: str, value: Any) -> Any:
    if kind in _ZERO:
        if value is None:
            return _ZERO[kind]
        return dict(sorted(value.items())) if kind == "m" else value
    if kind.startswith("[]"):
        return go_list(kind[2:], value)
    if kind.startswith("*"):
        return go_struct(kind[1:], value)
    return go_struct(kind, value or {})


def equal(struct: str, old: Document | None, new: Document | None) -> bool:
    """Return whether two values of *struct* are semantically equal: empty lists and maps are absent ones.

    Fields the table does not name count as they stand.

    >>> equal("Toleration", {"key": "a", "value": ""}, {"key": "a"})
    True
    """
    if old is None or new is None:
        return old is new
    return _comparable(go_struct(struct, old)) == _comparable(go_struct(struct, new)) and (
        _unnamed(struct, old) == _unnamed(struct, new)
    )


def _comparable(value: Any) -> Any:
    """Return *value* with empty lists and maps as null."""
    if isinstance(value, dict):
        return {name: _comparable(item) for name, item in value.items()} or None
    if isinstance(value, list):
        return [_comparable(item) for item in value] or None
    return value


def _unnamed(struct: str, wire: Document) -> Document:
    """Return the fields of *wire* that the table does not name: those of newer versions, or weir's own."""
    named = {name for _, name, _ in _fields(struct)}
    return {name: value for name, value in wire.items() if name not in named}


def diff(struct: str, old: Document | None, new: Document | None) -> str:
    """Return the changed hunks between two values of *struct*, as the server appends them to a message.

    >>> print(diff("Taint", {"key": "a"}, {"key": "b"}))
    @@ -1,5 +1,5 @@
     {
    - "Key": "a",
    + "Key": "b",
      "Value": "",
      "Effect": "",
      "TimeAdded": null
    <BLANKLINE>
    """
    before, after = (
        json.dumps(go_struct(struct, side), indent=1, ensure_ascii=False).split("\n") for side in (old, new)
    )
    lines = difflib.unified_diff(before, after, n=3, lineterm="")
    return "\n".join(line for line in list(lines)[2:]) + "\n"
